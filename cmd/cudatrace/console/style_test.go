package console

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	columns "github.com/cudatrace/cudatrace/convert/stats/table"
)

// Without a terminal there are no styles, unless a person asks for them; texts that bring their own are escaped all the same.
func TestColor(t *testing.T) {
	t.Parallel()
	for when, styled := range map[string]bool{"auto": false, "never": false, "always": true} {
		var out, errs bytes.Buffer
		c := New(&out, &errs)
		if err := c.Color(when); err != nil {
			t.Fatal(err)
		}
		c.Conclude("1 kernel; ", "nothing lost\x1b[2J", true)
		c.Item("try", "this")
		c.Error(errors.New("broken"))
		want := "cudatrace: 1 kernel; G(nothing lost\\u001b[2J)\n  B(try:) this\nR(cudatrace:) broken\n"
		if !styled {
			want = strings.NewReplacer("G(", "", "B(", "", "R(", "", ")", "").Replace(want)
		}
		for style, mark := range map[Style]string{Good: "G(", Bold: "B(", Bad: "R("} {
			want = strings.ReplaceAll(want, mark, string(style))
		}
		if styled {
			want = strings.ReplaceAll(want, ")", noStyle)
		}
		if errs.String() != want {
			t.Errorf("%s: standard error is %q, want %q", when, &errs, want)
		}
		tables := []*columns.Table{{Name: "kernels", Title: "all", Columns: []columns.Column{{Key: "name", Title: "kernel"}}, Rows: [][]any{{"k\x1b"}}}}
		if err := columns.WriteText(c.Text(), tables, 80); err != nil {
			t.Fatal(err)
		}
		plain := "kernels: all\n  kernel\n  k\ufffd\n"
		if styled {
			plain = fmt.Sprintf("%skernels: all%s\n%s  kernel%[2]s\n  k\ufffd\n", Bold, noStyle, Faint)
		}
		if out.String() != plain {
			t.Errorf("%s: standard output is %q, want %q", when, &out, plain)
		}
	}
	if err := New(nil, nil).Color("red"); err == nil {
		t.Error("--color red is taken")
	}
}
