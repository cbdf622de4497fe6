package callers

// Look reads what code a process has mapped.
func (r *Resolver) Look(pid int) {
	if m, ok := Read(pid, r.now); ok {
		r.Add(m)
	}
}
