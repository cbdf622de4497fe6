package exits

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
)

// Begin makes the eBPF program note how a process ends.
func (w *Watcher) Begin(pid int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begin(pid)
}

func (w *Watcher) begin(pid int) error {
	var end bpf.ProbesProcessEnd
	err := w.ends.Lookup(uint32(pid), &end)
	if err == nil && end.EndTime == 0 {
		return nil
	}
	if err == nil || errors.Is(err, ebpf.ErrKeyNotExist) {
		err = w.put(pid, &bpf.ProbesProcessEnd{})
	}
	if err != nil {
		return fmt.Errorf("how process %d ends is not noted: %w", pid, err)
	}
	return nil
}

// put adds an entry. In a full table it replaces processes that have ended.
func (w *Watcher) put(pid int, end *bpf.ProbesProcessEnd) error {
	err := w.ends.Put(uint32(pid), end)
	if errors.Is(err, syscall.E2BIG) {
		err = errors.Join(w.forgetEnded(), w.ends.Put(uint32(pid), end))
	}
	return err
}

func (w *Watcher) forgetEnded() error {
	var pid uint32
	var end bpf.ProbesProcessEnd
	var ended []uint32
	all := w.ends.Iterate()
	for all.Next(&pid, &end) {
		if end.EndTime > 0 {
			ended = append(ended, pid)
		}
	}
	for _, pid := range ended {
		if err := w.ends.Delete(pid); err != nil {
			return err
		}
	}
	return all.Err()
}

// Ended says whether the end of a process was seen. Its PID may belong to another process by
// now.
func (w *Watcher) Ended(pid int) bool {
	var end bpf.ProbesProcessEnd
	return w.ends.Lookup(uint32(pid), &end) == nil && end.EndTime > 0
}

// Exit says how a process ended that Begin was called for. ok is false while the process shows
// no sign of its end. The process need not be a child.
func (w *Watcher) Exit(pid int) (e Exit, ok bool) {
	var end bpf.ProbesProcessEnd
	if err := w.ends.Lookup(uint32(pid), &end); err != nil {
		return Exit{}, false
	}
	if end.EndTime > 0 {
		return final(&end), true
	}
	return expected(&end)
}
