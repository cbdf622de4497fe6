package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
)

// rankLog is a log of a process with a rank, which uses one GPU.
func rankLog(host string, pid int, variables, gpu string) string {
	return fmt.Sprintf(`meta key=host value=%[1]s
process pid=%[2]d start=10 exe=/bin/train environment=%[3]q
device pid=%[2]d id=0 name=%[4]s uuid=%[4]s
kernel pid=%[2]d device=0 context=1 stream=7 correlation=1 start=100 dur=5 name=k
`, host, pid, variables, gpu)
}

// Ranks order processes and GPUs, in a log and between logs, and name processes.
func TestRanks(t *testing.T) {
	t.Parallel()
	rank := func(n int) string { return fmt.Sprintf("LOCAL_RANK=%d\x00RANK=%d\x00WORLD_SIZE=12", n%4, n) }
	for name, test := range map[string]struct {
		logs []string
		want string
	}{
		"one log": {[]string{rankLog("n1", 30, rank(10), "aa") + rankLog("n1", 20, "", "bb") + rankLog("n1", 10, rank(2), "cc")},
			"rank 2: train 10, rank 10: train 30, train 20; GPUs cc aa bb"},
		"logs of several hosts": {[]string{rankLog("n2", 7, rank(9), "aa"), rankLog("n1", 7, rank(1), "bb"), rankLog("n3", 7, rank(4), "cc")},
			"rank 1: train 7, rank 4: train (n3, PID 7) 4194311, rank 9: train (n2, PID 7) 8388615; GPUs bb cc aa"},
		"without ranks": {[]string{rankLog("n2", 9, "", "aa") + rankLog("n2", 8, "", "bb")}, "train 9, train 8; GPUs aa bb"},
	} {
		tl, _ := joinedTimelines(t, Options{}, test.logs...)
		var processes, gpus []string
		for _, p := range tl.Processes {
			processes = append(processes, fmt.Sprintf("%s %d", p.Name, p.PID))
		}
		for _, g := range tl.GPUs {
			gpus = append(gpus, g.Name)
		}
		got := strings.Join(processes, ", ") + "; GPUs " + strings.Join(gpus, " ")
		goldentest.Same(t, test.want, got, "%s", name)
	}
}
