package console

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	columns "github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/must"
)

// Without a terminal there are no styles, unless a person asks for them; texts that bring their own are escaped all the same.
func TestColor(t *testing.T) {
	t.Parallel()
	for when, styled := range map[string]bool{"auto": false, "never": false, "always": true} {
		var out, errs bytes.Buffer
		c := New(&out, &errs)
		must.Do(t, c.Color(when))
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
		tables := []*columns.Table{{Name: "kernels", Title: "all", Columns: []columns.Column{{Key: "name", Title: "kernel"}}, Rows: []columns.Row{{Cells: []any{"k\x1b"}}}}}
		must.Do(t, columns.WriteText(c.Text(), tables, 80))
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

// Styles change nothing of a table but its look.
func TestRows(t *testing.T) {
	t.Parallel()
	rows := []Row{
		{Cells: []string{"complete", "no\x1b[2J"}, Last: Bad},
		{Cells: []string{"  ok", "driver", "13.0"}, First: Good},
		{Cells: []string{"", "", "→ try"}, Last: Bold},
		{Cells: []string{"", ""}, First: Bad, Last: Bad},
		{Cells: []string{"alone"}},
	}
	print := func(when string) string {
		var out bytes.Buffer
		c := New(&out, nil)
		must.Do(t, c.Color(when))
		c.Headline("all\n", Good)
		c.Rows(rows)
		return out.String()
	}
	plain, styled := print("never"), print("always")
	if want := "all\\n\ncomplete  no\\u001b[2J\n  ok      driver  13.0\n                  → try\n          \nalone\n"; plain != want {
		t.Errorf("without styles it is\n%q, want\n%q", plain, want)
	}
	for _, part := range []string{string(Good) + "all\\n" + noStyle, string(Bad) + "no\\u001b[2J" + noStyle + "\n", string(Good) + "  ok" + noStyle + "      driver", string(Bold) + "→ try" + noStyle + "\n"} {
		if !strings.Contains(styled, part) {
			t.Errorf("%q is missing in %q", part, styled)
		}
	}
	for _, style := range []Style{Good, Bad, Bold, noStyle} {
		styled = strings.ReplaceAll(styled, string(style), "")
	}
	if styled != plain {
		t.Errorf("with styles the text is %q, want %q", styled, plain)
	}
}

// Long cells at the end of a line go on below their beginning, in their style; a cell without room, and a word without an end, stay as they are.
func TestRowsKeepToWidth(t *testing.T) {
	t.Parallel()
	rows := []Row{
		{Cells: []string{"ok", "one two three four five six"}, First: Good, Last: Bold},
		{Cells: []string{"note", "http://a.very/long/address/without/spaces and more"}},
		{Cells: []string{"", ""}},
	}
	for width, want := range map[int]string{
		0:  "ok    one two three four five six\nnote  http://a.very/long/address/without/spaces and more\n      \n",
		30: "ok    one two three four five\n      six\nnote  http://a.very/long/address/without/spaces\n      and more\n      \n",
		20: "ok    one two three four five six\nnote  http://a.very/long/address/without/spaces and more\n      \n",
	} {
		o := &output{}
		if got := o.styledTable(rows, width); got != want {
			t.Errorf("on %d columns it is\n%q, want\n%q", width, got, want)
		}
	}
	o := &output{color: true}
	if got, want := o.styledTable(rows, 30), string(Bold)+"one two three four five"+noStyle+"\n      "+string(Bold)+"six"+noStyle+"\n"; !strings.Contains(got, want) {
		t.Errorf("it is %q, which lacks %q", got, want)
	}
}
