package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record/must"
)

// In a time namespace CLOCK_MONOTONIC is not the kernel's. Calls and their records meet all the same,
// whether the program alone is in such a namespace or the recorder with it.
func TestTimeNamespace(t *testing.T) {
	t.Parallel()
	within := []string{"unshare", "--time", "--fork", "--monotonic=97200", "--boottime=97200"}
	if err := exec.Command(within[0], append(within[1:], "true")...).Run(); err != nil {
		t.Skipf("there are no time namespaces here: %v", err)
	}
	vectoradd := sim("vectoradd")
	both := func(words ...[]string) (all []string) {
		for _, w := range words {
			all = append(all, w...)
		}
		return all
	}
	base := filepath.Join(t.TempDir(), "run")
	recorder := []string{"cudatrace", "record", "-o", base, "--"}
	for name, args := range map[string][]string{
		"the program":  both(recorder, within, []string{vectoradd}),
		"the recorder": both(within, recorder, []string{vectoradd}),
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		out, err := exec.Command("cudatrace", "info", "--format", "json", base+".cudatrace").Output()
		if err != nil {
			t.Fatalf("%s: info: %v", name, err)
		}
		var s convert.Summary
		must.Do(t, json.NewDecoder(bytes.NewReader(out)).Decode(&s))
		if s.DurationNS > uint64(time.Hour) || s.Uncorrelated > 0 || s.Early > 0 || s.Unmatched > 0 || !s.Complete {
			t.Errorf("%s: %d ns, %d calls without a record, %d early, %d unmatched, complete %t: %q",
				name, s.DurationNS, s.Uncorrelated, s.Early, s.Unmatched, s.Complete, s.Reasons)
		}
	}
}
