package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/errno"
)

// A Tree knows the processes that [Tree.Start] starts, and all that descend from them. It puts nothing into a process:
// it hooks the kernel's tracepoints of fork, exec and exit.
type Tree struct {
	programs *ebpf.Collection
	hooks    []io.Closer
}

// A Member is a process of a tree.
type Member struct {
	Began uint64 // ns, CLOCK_MONOTONIC: when the program began that it runs, by fork or exec
	Ended bool
	Name  string // of its thread that forked or called exec
}

// treeMaps are the maps of these programs alone.
var treeMaps = []string{bpf.ProbesMapTree, bpf.ProbesMapNotFollowed}

// FollowTree hooks the kernel. The error says why it cannot: a *PermissionError if rights are missing.
func FollowTree() (*Tree, error) {
	t := &Tree{}
	err := t.hook()
	switch {
	case err == nil:
		return t, nil
	case isPermission(err):
		err = permissionError(err)
	default:
		err = fmt.Errorf("the kernel cannot be asked which processes the program starts: %w", errno.Plain(err))
	}
	return nil, errors.Join(err, t.Close())
}

func (t *Tree) hook() (err error) {
	programs := map[string]string{
		bpf.ProbesProgTreeFork: "sched_process_fork", bpf.ProbesProgTreeExec: "sched_process_exec",
		bpf.ProbesProgTreeExit: "sched_process_exit",
	}
	part := objectPart{maps: treeMaps}
	for program := range programs {
		part.programs = append(part.programs, program)
	}
	if t.programs, err = loadPart(part); err != nil {
		return err
	}
	for program, tracepoint := range programs {
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: tracepoint, Program: t.programs.Programs[program]})
		if err != nil {
			return err
		}
		t.hooks = append(t.hooks, l)
	}
	return nil
}

// Start calls start, which starts a process as a child of ours: it and its descendants are the tree's, unless an error
// says that they cannot be.
func (t *Tree) Start(start func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self, tree := uint32(unix.Gettid()), t.programs.Maps[bpf.ProbesMapTree]
	err := tree.Put(self, &bpf.ProbesMember{})
	start()
	if err != nil {
		return fmt.Errorf("the processes that the program starts cannot be followed: %w", errno.Plain(err))
	}
	return tree.Delete(self)
}

// Find returns what is known of a process; ok is false if it is none of the tree's, as far as is known.
func (t *Tree) Find(pid uint32) (m Member, ok bool) {
	var found bpf.ProbesMember
	if t.programs.Maps[bpf.ProbesMapTree].Lookup(pid, &found) != nil {
		return m, false
	}
	name, _, _ := bytes.Cut(found.Comm[:], []byte{0})
	return Member{Began: found.Began, Ended: found.Ended != 0, Name: string(name)}, true
}

// Forget makes room: Find knows processes no longer that ended before a time, in ns of CLOCK_MONOTONIC. lost reports
// whether there was no room for some process until now.
func (t *Tree) Forget(before uint64) (lost bool, err error) {
	var pid uint32
	var m bpf.ProbesMember
	var ended []uint32
	tree := t.programs.Maps[bpf.ProbesMapTree]
	all := tree.Iterate()
	for all.Next(&pid, &m) {
		if m.Ended != 0 && m.Ended < before {
			ended = append(ended, pid)
		}
	}
	// aborted: too many changes meanwhile; the next call goes on
	if err := all.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return false, err
	}
	for _, pid := range ended {
		// One that is another process by now is looked up anew: between the two nothing is forgotten that runs.
		if m, ok := t.Find(pid); ok && m.Ended {
			if err := tree.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return false, err
			}
		}
	}
	var n uint64
	err = t.programs.Maps[bpf.ProbesMapNotFollowed].Lookup(uint32(0), &n)
	return n > 0, err
}

// Close removes the hooks.
func (t *Tree) Close() error {
	err := closeTogether(t.hooks)
	if t.programs != nil {
		t.programs.Close()
	}
	return err
}
