package uprobe

import (
	"errors"
	"io"

	"github.com/cilium/ebpf"
)

// A Site is the place of a function in a file, and the cookie for the program.
type Site struct {
	Cookie uint64
	Offset uint64
}

// Programs run at the entry and the return of a function. In the mode Session, Enter does both.
type Programs struct{ Enter, Leave *ebpf.Program }

// Check returns an error if the kernel cannot attach the loaded programs of a mode.
func Check(m Mode, enter *ebpf.Program) error {
	switch m {
	case Multi:
		return checkMulti(enter)
	case Single:
		return checkSingle()
	}
	return nil
}

// Attach probes functions of a file in one process. The returned Closer removes the entry
// probes before the return probes, so that no call is seen to begin whose return is missed. For
// the same reason the return probes are attached first.
func Attach(m Mode, p Programs, path string, sites []Site, pid int) (io.Closer, error) {
	switch m {
	case Session:
		return attachMulti(p.Enter, traceUprobeSession, 0, path, sites, pid)
	case Multi:
		return attachPair(p, path, sites, pid)
	}
	return attachSingles(p, path, sites, pid)
}

// AttachEntries probes only the entries of functions. In the mode Session the program is one
// for Multi: a program for Session would run at returns, too.
func AttachEntries(m Mode, program *ebpf.Program, path string, sites []Site, pid int) (io.Closer, error) {
	if m != Single {
		return attachMulti(program, traceUprobeMulti, 0, path, sites, pid)
	}
	var entries together
	for _, s := range sites {
		if err := entries.add(program, path, s, false, pid); err != nil {
			return nil, errors.Join(err, entries.Close())
		}
	}
	return entries, nil
}

func attachPair(p Programs, path string, sites []Site, pid int) (io.Closer, error) {
	leave, err := attachMulti(p.Leave, traceUprobeMulti, uprobeMultiReturn, path, sites, pid)
	if err != nil {
		return nil, err
	}
	enter, err := attachMulti(p.Enter, traceUprobeMulti, 0, path, sites, pid)
	if err != nil {
		return nil, errors.Join(err, leave.Close())
	}
	return InOrder{enter, leave}, nil
}

// attachSingles makes one perf event per entry and one per return.
func attachSingles(p Programs, path string, sites []Site, pid int) (io.Closer, error) {
	var enters, leaves together
	for _, s := range sites {
		err := errors.Join(
			leaves.add(p.Leave, path, s, true, pid),
			enters.add(p.Enter, path, s, false, pid))
		if err != nil {
			return nil, errors.Join(err, enters.Close(), leaves.Close())
		}
	}
	return InOrder{enters, leaves}, nil
}

func (t *together) add(program *ebpf.Program, path string, s Site, atReturn bool, pid int) error {
	l, err := attachSingle(program, path, s, atReturn, pid)
	if err != nil {
		return err
	}
	*t = append(*t, l)
	return nil
}
