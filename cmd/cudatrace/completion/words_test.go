package completion

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestComplete completes the last word of lines, whose words stand between bars.
func TestComplete(t *testing.T) {
	t.Parallel()
	app := &cli.App{Name: "prog", Commands: []*cli.Command{
		{Name: "run", Usage: "run it", ArgsUsage: "PROGRAM [ARG...]", UsageText: "prog run [--] PROGRAM [ARG...]", Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write `NAME`"},
			&cli.StringFlag{Name: "mode", Usage: "`fast|exact|TIME`: how"},
			&cli.StringFlag{Name: "only", Usage: "only `KINDS`"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "say nothing"},
			&cli.BoolFlag{Name: "secret", Hidden: true},
		}},
		{Name: "watch", ArgsUsage: "LOG", UsageText: "prog watch LOG\nprog watch -- PROGRAM [ARG...]"},
		{Name: "look", ArgsUsage: "[PROGRAM]", UsageText: "prog look [PROGRAM]"},
		{Name: "compare", ArgsUsage: "BASE NEW"},
		{Name: "nothing"},
		{Name: "hidden", Hidden: true},
	}}
	for _, c := range []struct{ line, want string }{
		{"", "words run watch look compare nothing --help --version"},
		{"r", "words run"},
		{"--v", "words --version"},
		{"unknown|x", "words"},
		{"nothing|", "words"},
		{"run|-", "words --output --mode --only --quiet --help"},
		{"run|--mo", "words --mode"},
		{"run|--mode|", "words fast exact"},
		{"run|-mode|f", "words fast"},
		{"run|--mode=e", "words --mode=exact"},
		{"run|--mode|=|e", "words --mode=exact"},
		{"run|--mode|=", "words --mode=fast --mode=exact"},
		{"run|--mode|fast|", "program 3"},
		{"run|--only|", "words call kernel"},
		{"run|--only|call,k", "words call,kernel"},
		{"run|--only=call,", "words --only=call,call --only=call,kernel"},
		{"run|-o|", "files"},
		{"run|-qo|", "files"},
		{"run|-oname|", "program 2"},
		{"run|-q|", "program 2"},
		{"run|--unknown|a", "program 2"},
		{"run|a", "program 1"},
		{"run|a|-", "program 1"},
		{"run|a|--mode|", "program 1"},
		{"run|--|-x", "program 2"},
		{"run|--mode=fast|--|a|b", "program 3"},
		{"watch|", "files cudatrace"},
		{"watch|--|", "program 2"},
		{"look|--|", "program 2"},
		{"look|a", "program 1"},
		{"compare|a|", "files cudatrace json"},
		{"=|=|", "words"},
		{"run|=|=", "program 1"},
	} {
		a := complete(app, map[string][]string{"KINDS": {"call", "kernel"}}, strings.Split(c.line, "|"))
		got := a.offer
		for _, w := range a.words {
			got += " " + w.text
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}

// FuzzComplete: whatever stands in a line, the words that are offered continue its last word.
func FuzzComplete(f *testing.F) {
	app := &cli.App{Commands: []*cli.Command{{Name: "run", ArgsUsage: "LOG", Flags: []cli.Flag{
		&cli.StringFlag{Name: "mode", Aliases: []string{"m"}, Usage: "`fast|exact`"}, &cli.StringFlag{Name: "only", Usage: "only `KINDS`"},
	}}}}
	for _, line := range []string{"run|--mode=", "run|-m|", "run|--only=a,b|=|-x", "run|é|-é|="} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Split(text, "|")
		l := joined(words)
		for _, w := range complete(app, map[string][]string{"KINDS": {"call"}}, words).words {
			if !strings.HasPrefix(w.text, l[len(l)-1]) {
				t.Errorf("%q: %q", words, w.text)
			}
		}
	})
}
