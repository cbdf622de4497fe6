package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// TestFewFiles records where few files may be open: the program runs as ever, and one line says what is
// missing and which limit to raise.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	// Go's runtime ends a program with less than two files to spare, at any time: its timers need them.
	for _, limit := range []int{8, 10, 16, 22, 28, 32, 36, 40, 44, 48, 56, 64, 72, 80, 128} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			base := filepath.Join(t.TempDir(), "run")
			var stdout, stderr bytes.Buffer
			const others = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; " // files that the test has open from its parent
			cmd := exec.Command("sh", "-c", others+`ulimit -n "$1"; shift; exec "$@"`, "sh", fmt.Sprint(limit),
				"cudatrace", "record", "-q", "-o", base, sim("vectoradd"))
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil || stdout.String() != "vectoradd: 50000 elements, sum ok\n" {
				t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
			}
			said := stderr.String()
			remedy := fmt.Sprintf("the limit of %d open files is too low: raise it (ulimit -n 4096)", limit)
			if strings.HasPrefix(said, "cudatrace: nothing is recorded: ") {
				if said != "cudatrace: nothing is recorded: "+remedy+"\n" || limit > 48 {
					t.Error(said)
				}
				return
			}
			sum, err := summarize(base + ".cudatrace")
			if err != nil || sum.Kernels != 1 || sum.Matched != 4 {
				t.Errorf("%v: %d kernels, %d matched\n%s", err, sum.Kernels, sum.Matched, said)
			}
			if strings.HasPrefix(said, "cudatrace: calls are not probed: ") {
				if !strings.Contains(said, remedy+"; they come from CUPTI instead") || limit > 80 || sum.Calls == 0 {
					t.Errorf("%d calls\n%s", sum.Calls, said)
				}
				return
			}
			if said != "" || !sum.Complete {
				t.Errorf("complete %t %q\n%s", sum.Complete, sum.Reasons, said)
			}
		})
	}
}

// TestCutTexts records texts that are longer than the injected library takes, and as long as that: those that it cuts are counted.
func TestCutTexts(t *testing.T) {
	t.Parallel()
	for bytes, cut := range map[string]uint64{"32768": 0, "32769": 4} { // three marks, and the name of a domain
		r := recordProgram(t, sim("nvtx"), "-t", "3", "-b", bytes, "-d", bytes)
		if r.Lost[tracelog.LostStrings] != cut || lostWork(&r.Summary) != cut || r.Complete != (cut == 0) || r.RangeMarks != 14 {
			t.Errorf("%s bytes: %d marks, lost %v, complete %t %q", bytes, r.RangeMarks, r.Lost, r.Complete, r.Reasons)
		}
		tr := tptest.Open(t, r.base+".pftrace")
		expectRows(t, tr, min(cut, 1), "losses in the trace", "select count(*) > 0 from slice where name glob '*strings*'")
	}
}
