package stats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/must"
)

// Who held memory is kept at a bounded number of moments, however long the recording, and at the peak to the byte: of
// PyTorch's cache if there are blocks, else of calls.
func TestHeldOver(t *testing.T) {
	t.Parallel()
	p, held := newProgram(), uint64(0)
	p.python(7)
	for range 100 {
		p.stepping(func() {
			held += 1 << 20
			p.torch(1<<20, held, 64<<30, 0)
		})
	}
	of := func(open convert.Log) *stats.HeldOver {
		s := stats.New()
		s.FollowMemory()
		must.Get(convert.Timeline([]convert.Log{open}, convert.Options{}, s))(t)
		return s.HeldOver()
	}
	h := of(p.asLog(t))
	peaks := 0
	for i, m := range h.Moments {
		if i > 0 && (m.At < h.Moments[i-1].At || m.All < h.Moments[i-1].All) || len(m.Held) > 1 {
			t.Errorf("moment %d: %+v", i, m)
		}
		if m.Peak {
			peaks++
			if m.All != held {
				t.Errorf("%d bytes at the peak, want %d", m.All, held)
			}
		}
	}
	last := h.Moments[len(h.Moments)-1]
	if n := len(h.Moments); n < 90 || n > 194 || peaks != 1 || last.All != held || !strings.HasPrefix(h.Title, "PyTorch's cache") {
		t.Errorf("%q: %d moments, %d peaks, %d bytes at the end", h.Title, n, peaks, last.All)
	}
	calls := of(convert.Path(logs(t)["memorycalls"]))
	var text []string
	for _, m := range calls.Moments {
		text = append(text, fmt.Sprint(m.All, m.Peak, len(m.Held)))
	}
	if !strings.Contains(strings.Join(text, " "), "true") {
		t.Errorf("%s: %q", calls.Title, text)
	}
}
