package convert

import (
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
)

// Records that make no sense together still make a trace whose slices nest.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := range logtest.Seeds(400, 10) {
		log := logtest.Chaos(t, rand.New(rand.NewPCG(seed, 1)), int(10+seed))
		tl, s := timelineOf(t, logtest.InMemory(log))
		if s.Matched+s.Unmatched != s.Kernels+s.Copies+s.Memsets || s.Waits != arrows(tl) {
			t.Fatalf("seed %d: %+v", seed, s)
		}
		traceTo(t, logtest.InMemory(log), TraceOptions{Compress: output.None}, io.Discard)
		files, _ := chromeFilesOf(t, logtest.InMemory(log), TraceOptions{})
		for _, f := range files {
			f.parse(t)
		}
	}
}

// arrows counts the work that calls waited for.
func arrows(tl *timelinetest.Timeline) (n uint64) {
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for i := range th.Slices {
				n += uint64(len(th.Slices[i].Waits()))
			}
		}
	}
	return n
}
