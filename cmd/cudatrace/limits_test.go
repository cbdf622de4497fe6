package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFewFiles records where few files may be open: the program runs as ever, and one line says what is
// missing and which limit to raise.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{4, 5, 6, 7, 8, 10, 16, 22, 28, 32, 40, 48, 56, 64, 80, 128} {
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
				if said != "cudatrace: nothing is recorded: "+remedy+"\n" || limit > 30 {
					t.Error(said)
				}
				return
			}
			sum, err := summarize(base + ".cudatrace")
			if limit < 32 && strings.Contains(said, "processes may run unrecorded: none can be accepted now: "+remedy) && err == nil && !sum.Complete {
				return // all were in use when the program started
			}
			if err != nil || sum.Kernels != 1 || sum.Matched != 4 {
				t.Errorf("%v: %d kernels, %d matched\n%s", err, sum.Kernels, sum.Matched, said)
			}
			if strings.HasPrefix(said, "cudatrace: calls are not probed: ") {
				if !strings.Contains(said, remedy+"; they come from CUPTI instead") || limit > 64 || sum.Calls == 0 {
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
