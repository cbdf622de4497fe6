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
	for _, limit := range []int{4, 6, 8, 16, 28, 36, 44, 56, 72, 128} {
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

// TestLongTexts records texts that are long and nearly alike, which take next to no room in the log: every command reads
// what the recorder wrote.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	const marks = 6_000
	for _, last := range []string{"", "--last=1m"} {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			base, log := filepath.Join(dir, "run"), filepath.Join(dir, "run.cudatrace")
			args := []string{"record", "-q", "--no-convert", "--memory-limit", "256M", "-o", base}
			if last != "" {
				args = append(args, last)
			}
			out, err := exec.Command("cudatrace", append(args, sim("nvtx"), "-t", fmt.Sprint(marks), "-b", "2000")...).CombinedOutput()
			if want := fmt.Sprintf("counts kernels=31 copies=1 sets=1\nnvtx ranges=34 marks=%d names=4 open=1\n", marks+11); err != nil || string(out) != want {
				t.Fatalf("%v\n%s", err, out)
			}
			sum, err := summarize(log)
			if err != nil || !sum.Complete || sum.Damaged || sum.RangeMarks != marks+11 || lostWork(&sum) > 0 {
				t.Errorf("%v: complete %t %q, %d marks, lost %v", err, sum.Complete, sum.Reasons, sum.RangeMarks, sum.Lost)
			}
			if last != "" {
				return // the same writer has made both logs
			}
			for command, says := range map[string]string{
				"convert": " slices\n", "info": "", "dump": "", "stats": "", "repair": " is intact: there is nothing to repair\n",
				"top": " has ended: 31 launches, ",
			} {
				var stderr bytes.Buffer
				cmd := exec.Command("cudatrace", command, log)
				cmd.Stderr = &stderr
				if err := cmd.Run(); err != nil || !strings.Contains(stderr.String(), says) || strings.Count(stderr.String(), "\n") > 1 {
					t.Errorf("%s: %v\n%s", command, err, stderr.String())
				}
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
