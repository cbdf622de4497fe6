package convert

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/internal/join"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A piecemeal is a log of which the first bytes are there.
type piecemeal struct {
	log  []byte
	size int
}

func (p *piecemeal) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(p.log[:p.size]).ReadAt(b, off)
}

func (p *piecemeal) Size() int64 { return int64(p.size) }

func (p *piecemeal) open() (*tracelog.Reader, error) {
	return tracelog.NewReader(p, p.Size(), "growing")
}

// followed follows a log that grows to the given sizes.
func followed(t testing.TB, log []byte, sink timeline.Sink, sizes ...int) *GrowingLog {
	t.Helper()
	p := &piecemeal{log: log, size: sizes[0]}
	f := must.Get(Follow(p.open, sink))(t)
	for _, size := range sizes {
		p.size = size
		must.Do(t, f.Read(nil))
	}
	return f
}

// sizesOf cuts a log into pieces at random.
func sizesOf(rnd *rand.Rand, all, pieces int) (sizes []int) {
	at := 32
	for range pieces {
		at += rnd.IntN(2*all/pieces + 1)
		sizes = append(sizes, min(at, all))
	}
	return append(sizes, all)
}

func gpuLogs(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../testdata/gpu/logs/*.cudatrace")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	logs := make(map[string][]byte)
	for _, path := range paths {
		log := must.Get(os.ReadFile(path))(t)
		logs[filepath.Base(path)] = log
	}
	return logs
}

// foundText shows the counts that a view of a log that is followed may rely on.
func foundText(f *join.Found) string {
	return fmt.Sprintf("%d calls, %d failed, %d launches, %+v, %d matched, peak %d", f.Calls.Calls, f.Calls.Failed, f.Calls.Launches, f.Work.WorkCounts, f.Work.Matched, f.PeakDevice)
}

// A nothing is a sink that keeps nothing.
type nothing struct{}

func (nothing) Take([]timeline.Event) error { return nil }
func (nothing) End(error) error             { return nil }

// However a log grows, it is joined as a conversion of the whole log does.
func TestFollowerJoinsAsConversion(t *testing.T) {
	t.Parallel()
	for name, log := range gpuLogs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConversion([]Log{{name, logtest.InMemory(log)}}, Options{nested: true})
			must.Do(t, c.read())
			must.Get(c.run(nil))(t)
			want := foundText(&c.logs[0].found)
			for seed := range uint64(3) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				f := followed(t, log, nothing{}, sizesOf(rnd, len(log), 1+rnd.IntN(40))...)
				if !f.Ended() {
					t.Error("the end was not noticed")
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(want, foundText(&f.joiner.Found)); diff != "" {
					t.Errorf("seed %d (-conversion +growing):\n%s", seed, diff)
				}
			}
		})
	}
}
