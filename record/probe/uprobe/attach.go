package uprobe

import (
	"errors"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// A Site is a function's place in a file, and what the program at it is told.
type Site struct {
	Cookie uint64
	Offset uint64
}

// Programs run when a function is entered and when it returns. In the mode Session, Enter
// does both.
type Programs struct{ Enter, Leave *ebpf.Program }

// Attach probes functions of a file in one process. What it returns removes the entry
// probes before the return probes, so that no return is missed of a call whose entry was
// seen. They are attached in the opposite order for the same reason.
func Attach(m Mode, p Programs, path string, sites []Site, pid int) (io.Closer, error) {
	switch m {
	case Session:
		return attachMulti(p.Enter, traceUprobeSession, 0, path, sites, pid)
	case Multi:
		return attachPair(p, path, sites, pid)
	}
	return attachSingles(p, path, sites, pid)
}

// AttachEntries probes the entries of functions alone. In the mode Session the program is one
// for Multi: a session's would run at returns too.
func AttachEntries(m Mode, program *ebpf.Program, path string, sites []Site, pid int) (io.Closer, error) {
	if m != Single {
		return attachMulti(program, traceUprobeMulti, 0, path, sites, pid)
	}
	file, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	var entries together
	for _, s := range sites {
		if err := entries.add(file.Uprobe, program, s, pid); err != nil {
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

// attachSingles makes one perf event for each entry and each return.
func attachSingles(p Programs, path string, sites []Site, pid int) (io.Closer, error) {
	file, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	var enters, leaves together
	for _, s := range sites {
		err := errors.Join(
			leaves.add(file.Uretprobe, p.Leave, s, pid),
			enters.add(file.Uprobe, p.Enter, s, pid))
		if err != nil {
			return nil, errors.Join(err, enters.Close(), leaves.Close())
		}
	}
	return InOrder{enters, leaves}, nil
}

type attachFunc func(symbol string, program *ebpf.Program, o *link.UprobeOptions) (link.Link, error)

func (t *together) add(attach attachFunc, program *ebpf.Program, s Site, pid int) error {
	l, err := attach("", program, &link.UprobeOptions{Address: s.Offset, Cookie: s.Cookie, PID: pid})
	if err != nil {
		return err
	}
	*t = append(*t, l)
	return nil
}
