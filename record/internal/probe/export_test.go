package probe

import (
	"slices"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Detach removes the probes from a process.
func (p *Prober) Detach(pid int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.detach(pid)
}

// Drain delivers what the buffers hold at the moment.
func (p *Prober) Drain(sink Sink) error { return p.events.drain(sink) }

// Lost counts the calls that were lost since Open, by cause.
func (p *Prober) Lost() ([]tracelog.Lost, error) {
	var lost []tracelog.Lost
	for i, cause := range lostCauses {
		l, err := p.losses.sum(uint32(i))
		if err != nil {
			return nil, err
		}
		if l.Count > 0 && cause != "" {
			l.Cause = cause
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// Unreadable counts recorded values that are 0 as the program's memory could not be read.
// The calls themselves are there.
func (p *Prober) Unreadable() (uint64, error) {
	l, err := p.losses.sum(bpf.ReadFault)
	return l.Count, err
}

// CutNames counts symbols whose name was longer than the 4095 bytes that are kept.
func (p *Prober) CutNames() (uint64, error) {
	l, err := p.losses.sum(bpf.CutName)
	return l.Count, err
}

// Has reports whether a side of the API is there.
func (a Attachment) Has(side cudaapi.Library) bool {
	return slices.ContainsFunc(a.Libraries, func(l Library) bool { return l.Side == side })
}
