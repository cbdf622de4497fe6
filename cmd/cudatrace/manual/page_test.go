package manual

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// TestPage compares the page of a command whose texts have all that man would take for its own.
func TestPage(t *testing.T) {
	t.Parallel()
	const golden = "testdata/page.1"
	got := commandPage(&cli.App{Name: "prog", Version: "1.2-3"}, &cli.Command{
		Name: "run", Usage: `run 'it' "now"`,
		UsageText:   "prog run [OPTION...] FILE\nprog run --all\n\nExample: prog run ~/.x '*' `y`\nExample: .dot \\n ^",
		Description: ".TH is no request here.\n'br is none either: a\\fBb",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "take everything"},
			&cli.StringFlag{Category: "Output", Name: "output", Aliases: []string{"o"}, Value: "x.y", Usage: "write `FILE`"},
			&cli.StringFlag{Category: "Output", Name: "mode", Usage: "`a-b|c`: how"},
		},
	})
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if diff := cmp.Diff(string(want), got); err != nil || diff != "" {
		t.Errorf("%v: -want +got:\n%s", err, diff)
	}
}
