package probe

// WatchExit has a process sent a signal before it ends, whose handler is at the given address;
// see [exits.Watcher.Watch].
func (p *Prober) WatchExit(pid, signal int, handler uint64) error {
	if err := p.processes.forgetEnded(); err != nil {
		return err
	}
	return p.exits.Watch(pid, signal, handler)
}

// ExitReason says how a process that was attached or watched ended, also after it has been
// detached. ok is false while it shows no sign of an end.
func (p *Prober) ExitReason(pid int) (e Exit, ok bool) { return p.exits.Exit(pid) }
