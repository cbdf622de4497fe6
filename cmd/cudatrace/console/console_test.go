package console

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/record/figures"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain: ü µ 漢 \\ \"":     "plain: ü µ 漢 \\ \"",
		"a\x1b[2J\nb\tc\r":       `a\u001b[2J\nb\tc\u000d`,
		"\u202e\u2066\u200f\x7f": `\u202e\u2066\u200f\u007f`,
		"\u009b\x9b\xff":         "\\u009b\ufffd\ufffd",
		"\U000e0041\u2028\ufeff": `\udb40\udc41\u2028\ufeff`,
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// A text of many lines is escaped wherever it is cut into writes.
func TestTextInPieces(t *testing.T) {
	t.Parallel()
	const text = "one ü\n\ttwo\x1b[1m \u202e漢\xe2\x82\nthree \xf0\x9f"
	const want = "one ü\n\ttwo\\u001b[1m \\u202e漢\ufffd\nthree \ufffd"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		c := New(&out, nil)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if written, err := fmt.Fprint(c.Text(), rest[:n]); written != n || err != nil {
				t.Fatal(written, err)
			}
			rest = rest[n:]
		}
		if err := c.Failure(nil); err != nil || strings.ToValidUTF8(out.String(), "?") != out.String() {
			t.Errorf("in pieces of %d: %q, %v", size, &out, err)
		}
		if got := strings.ReplaceAll(out.String(), "\ufffd\ufffd", "\ufffd"); got != want {
			t.Errorf("in pieces of %d: %q, want %q", size, got, want)
		}
	}
}

// A long line is cut in its middle, and so is a cell; a text of many lines, such as JSON, is not.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	long := "begin " + strings.Repeat("é", 1<<20) + " end"
	cut := figures.Cut(long, figures.LongText)
	var out, errs bytes.Buffer
	c := New(&out, &errs)
	c.Say(long)
	c.Details([][]string{{long, "1"}})
	if got := errs.String(); len(got) > 5*figures.LongText || !strings.Contains(got, " end\n") || !strings.Contains(got, "…") || !strings.Contains(got, cut) {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
	fmt.Fprint(c.Text(), long)
	if got := utf8.RuneCountInString(out.String()); got < 1<<20 {
		t.Errorf("%d characters of a text", got)
	}
}

func TestLinesAndTables(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	c := New(&out, &errs)
	c.Say("a\nb")
	c.Error(errors.Join(errors.New("one"), errors.New("two\x1b")))
	c.Detail("%s: %d", "x\t", 7)
	c.Details([][]string{{"file", "1 KiB"}, {"longer\n", "2 KiB"}})
	c.Status("no terminal")
	c.Table([][]string{{"a", "b"}, {"\x1bccc", "d"}})
	if want := "cudatrace: a\\nb\ncudatrace: one; two\\u001b\n  x\\t: 7\n  file       1 KiB\n  longer\\n   2 KiB\n"; errs.String() != want {
		t.Errorf("standard error is %q", &errs)
	}
	if want := "a          b\n\\u001bccc  d\n"; out.String() != want {
		t.Errorf("standard output is %q", &out)
	}
}

// The failure of a write is the command's, unless the command failed for another reason.
func TestFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("no room")
	c := New(failing{broken}, nil)
	c.Print("lost")
	if err := c.Failure(nil); err == nil || err.Error() != "standard output cannot be written: no room" {
		t.Errorf("failure %v", err)
	}
	if err := c.Failure(fmt.Errorf("wrapped: %w", broken)); err == nil || !strings.HasPrefix(err.Error(), "standard output cannot be written") {
		t.Errorf("failure %v", err)
	}
	if other := errors.New("other"); c.Failure(other) != other {
		t.Error("another failure is not reported")
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
