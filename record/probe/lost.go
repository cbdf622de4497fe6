package probe

import (
	"fmt"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Causes of loss as the log names them, by index in the BPF map.
var lostCauses = [...]string{
	bpf.LostRingBuffer:  tracelog.LostRingBuffer,
	bpf.LostThreadTable: tracelog.LostThreadTable,
	bpf.LostNesting:     tracelog.LostNesting,
}

// Lost counts the calls that were lost since Open, by cause: nothing where nothing was.
func (p *Prober) Lost() ([]tracelog.Lost, error) {
	var lost []tracelog.Lost
	for i, cause := range lostCauses {
		l, err := p.losses(uint32(i))
		if err != nil {
			return nil, err
		}
		if l.Count > 0 {
			l.Cause = cause
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// lostCounts is what LostSince has told of.
type lostCounts struct {
	until  uint64 // ns
	counts [len(lostCauses)]uint64
}

// LostSince counts the calls that were lost since the last time that it was called,
// by cause, and says when that was: between the two calls at the latest.
func (p *Prober) LostSince() ([]tracelog.Lost, error) {
	p.draining.Lock()
	defer p.draining.Unlock()
	now := host.Monotonic()
	var lost []tracelog.Lost
	for i, cause := range lostCauses {
		l, err := p.losses(uint32(i))
		if err != nil {
			return nil, err
		}
		if told := p.counted.counts[i]; l.Count > told {
			p.counted.counts[i] = l.Count
			lost = append(lost, tracelog.Lost{Cause: cause, Count: l.Count - told, From: max(l.From, p.counted.until), To: l.To})
		}
	}
	p.counted.until = now
	return lost, nil
}

// Unreadable counts recorded values that are 0 as the program's memory could not be
// read. The calls themselves are there.
func (p *Prober) Unreadable() (uint64, error) {
	l, err := p.losses(bpf.ReadFault)
	return l.Count, err
}

// CutNames counts symbols whose name was longer than the 4095 bytes that are kept.
func (p *Prober) CutNames() (uint64, error) {
	l, err := p.losses(bpf.CutName)
	return l.Count, err
}

// losses adds up the CPUs' counts of one cause.
func (p *Prober) losses(index uint32) (tracelog.Lost, error) {
	var sum tracelog.Lost
	var perCPU []bpf.ProbesLost
	if err := p.maps.Losses.Lookup(index, &perCPU); err != nil {
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
