package probe

// WatchExit makes the kernel send a process a signal before it ends. handler is the address of
// the signal's handler; see [exits.Watcher.Watch].
func (p *Prober) WatchExit(pid, signal int, handler uint64) error {
	if err := p.processes.forgetEnded(); err != nil {
		return err
	}
	return p.exits.Watch(pid, signal, handler)
}

// ExitReason says how a process ended that was attached or watched, even if it has been
// detached since. ok is false while the process shows no sign of its end.
func (p *Prober) ExitReason(pid int) (e Exit, ok bool) { return p.exits.Exit(pid) }
