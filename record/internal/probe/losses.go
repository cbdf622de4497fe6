package probe

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// lostCauses are the causes of loss by the log's names, indexed as in the BPF map.
var lostCauses = [...]string{
	bpf.LostBufferFull:  tracelog.LostCallBuffer,
	bpf.LostThreadTable: tracelog.LostThreadTable,
	bpf.LostNesting:     tracelog.LostNesting,

	bpf.LostFunctionRate:   tracelog.LostFunctionRate,
	bpf.LostFunctionBuffer: tracelog.LostFunctionBuffer,

	bpf.LostFunctionNesting: tracelog.LostFunctionNesting,
}

// losses counts lost calls by cause.
type losses struct {
	counters *ebpf.Map // the eBPF program's counts, one per CPU

	mu    sync.Mutex
	until uint64                  // ns: time of the last LostSince
	told  [len(lostCauses)]uint64 // sum of all counts that LostSince has returned
}

// LostSince counts the calls that were lost since its last call, by cause, with the times of
// the first and the last of them.
func (p *Prober) LostSince() ([]tracelog.Lost, error) {
	l := &p.losses
	l.mu.Lock()
	defer l.mu.Unlock()
	now := host.Monotonic()
	var lost []tracelog.Lost
	for i, cause := range lostCauses {
		if cause == "" { // nothing is lost
			continue
		}
		sum, err := l.sum(uint32(i))
		if err != nil {
			return nil, err
		}
		if told := l.told[i]; sum.Count > told {
			l.told[i] = sum.Count
			lost = append(lost, tracelog.Lost{Cause: cause, Count: sum.Count - told, From: max(sum.From, l.until), To: sum.To})
		}
	}
	l.until = now
	return lost, nil
}

// sum adds up the CPUs' counts of one cause.
func (l *losses) sum(index uint32) (tracelog.Lost, error) {
	var sum tracelog.Lost
	var perCPU []bpf.ProbesLost
	if err := l.counters.Lookup(index, &perCPU); err != nil {
		return sum, fmt.Errorf("reading the counts of lost calls: %w", err)
	}
	for _, c := range perCPU {
		if c.Count == 0 {
			continue
		}
		if sum.Count == 0 || c.First < sum.From {
			sum.From = c.First
		}
		sum.Count += c.Count
		sum.To = max(sum.To, c.Last)
	}
	return sum, nil
}
