package tracelog

// Each method adds one record. The record is the caller's again when it returns.
// After an error, or after Close, records are counted in Dropped instead.

// Meta adds a fact of the recording.
func (w *Writer) Meta(m *Meta) {
	if w.begin(KindMeta) {
		var r row
		m.row(&r, &w.in)
		w.add(KindMeta, &r)
	}
	w.mu.Unlock()
}

// Function adds a function, before the first call that names it.
func (w *Writer) Function(f *Function) {
	if w.begin(KindFunction) {
		var r row
		f.row(&r, &w.in)
		w.add(KindFunction, &r)
	}
	w.mu.Unlock()
}

// Process adds a process.
func (w *Writer) Process(p *Process) {
	if w.begin(KindProcess) {
		var r row
		p.row(&r, &w.in)
		w.add(KindProcess, &r)
	}
	w.mu.Unlock()
}

// Thread adds or changes the name of a thread.
func (w *Writer) Thread(t *Thread) {
	if w.begin(KindThread) {
		var r row
		t.row(&r, &w.in)
		w.add(KindThread, &r)
	}
	w.mu.Unlock()
}

// Call adds a call.
func (w *Writer) Call(c *Call) {
	if w.begin(KindCall) {
		var r row
		c.row(&r)
		w.add(KindCall, &r)
	}
	w.mu.Unlock()
}

// API adds an API record.
func (w *Writer) API(a *API) {
	if w.begin(KindAPI) {
		var r row
		a.row(&r, &w.in)
		w.add(KindAPI, &r)
	}
	w.mu.Unlock()
}

// Kernel adds a kernel's execution.
func (w *Writer) Kernel(k *Kernel) {
	if w.begin(KindKernel) {
		var r row
		k.row(&r, &w.in)
		w.add(KindKernel, &r)
	}
	w.mu.Unlock()
}

// Memcpy adds a copy.
func (w *Writer) Memcpy(m *Memcpy) {
	if w.begin(KindMemcpy) {
		var r row
		m.row(&r)
		w.add(KindMemcpy, &r)
	}
	w.mu.Unlock()
}

// Memset adds a fill.
func (w *Writer) Memset(m *Memset) {
	if w.begin(KindMemset) {
		var r row
		m.row(&r)
		w.add(KindMemset, &r)
	}
	w.mu.Unlock()
}

// Device adds a device.
func (w *Writer) Device(d *Device) {
	if w.begin(KindDevice) {
		var r row
		d.row(&r, &w.in)
		w.add(KindDevice, &r)
	}
	w.mu.Unlock()
}

// Context adds a context.
func (w *Writer) Context(c *Context) {
	if w.begin(KindContext) {
		var r row
		c.row(&r)
		w.add(KindContext, &r)
	}
	w.mu.Unlock()
}

// Stream adds a stream.
func (w *Writer) Stream(s *Stream) {
	if w.begin(KindStream) {
		var r row
		s.row(&r)
		w.add(KindStream, &r)
	}
	w.mu.Unlock()
}

// Clock adds a reading of the clocks.
func (w *Writer) Clock(c *Clock) {
	if w.begin(KindClock) {
		var r row
		c.row(&r)
		w.add(KindClock, &r)
	}
	w.mu.Unlock()
}

// CUPTI adds how CUPTI records a process.
func (w *Writer) CUPTI(c *CUPTI) {
	if w.begin(KindCUPTI) {
		var r row
		c.row(&r, &w.in)
		w.add(KindCUPTI, &r)
	}
	w.mu.Unlock()
}

// Lost adds a loss.
func (w *Writer) Lost(l *Lost) {
	if w.begin(KindLost) {
		var r row
		l.row(&r, &w.in)
		w.add(KindLost, &r)
	}
	w.mu.Unlock()
}

// Note adds a line for people.
func (w *Writer) Note(n *Note) {
	if w.begin(KindNote) {
		var r row
		n.row(&r, &w.in)
		w.add(KindNote, &r)
	}
	w.mu.Unlock()
}

// ProcessEnd adds the end of a process.
func (w *Writer) ProcessEnd(p *ProcessEnd) {
	if w.begin(KindProcessEnd) {
		var r row
		p.row(&r)
		w.add(KindProcessEnd, &r)
	}
	w.mu.Unlock()
}

// Sync adds a synchronization.
func (w *Writer) Sync(s *Sync) {
	if w.begin(KindSync) {
		var r row
		s.row(&r)
		w.add(KindSync, &r)
	}
	w.mu.Unlock()
}

// Overhead adds time that CUPTI or the driver took for itself.
func (w *Writer) Overhead(o *Overhead) {
	if w.begin(KindOverhead) {
		var r row
		o.row(&r)
		w.add(KindOverhead, &r)
	}
	w.mu.Unlock()
}

// Marker adds an NVTX mark or an end of an NVTX range.
func (w *Writer) Marker(m *Marker) {
	if w.begin(KindMarker) {
		var r row
		m.row(&r, &w.in)
		w.add(KindMarker, &r)
	}
	w.mu.Unlock()
}

// Name adds the name that the program gives to an object.
func (w *Writer) Name(n *Name) {
	if w.begin(KindName) {
		var r row
		n.row(&r, &w.in)
		w.add(KindName, &r)
	}
	w.mu.Unlock()
}

// Memory adds an allocation or a release.
func (w *Writer) Memory(m *Memory) {
	if w.begin(KindMemory) {
		var r row
		m.row(&r)
		w.add(KindMemory, &r)
	}
	w.mu.Unlock()
}

// MemoryPool adds what happened to a memory pool.
func (w *Writer) MemoryPool(m *MemoryPool) {
	if w.begin(KindMemoryPool) {
		var r row
		m.row(&r)
		w.add(KindMemoryPool, &r)
	}
	w.mu.Unlock()
}

// Graph adds a whole graph's execution.
func (w *Writer) Graph(g *Graph) {
	if w.begin(KindGraph) {
		var r row
		g.row(&r)
		w.add(KindGraph, &r)
	}
	w.mu.Unlock()
}

// Symbol adds the name behind a handle.
func (w *Writer) Symbol(s *Symbol) {
	if w.begin(KindSymbol) {
		var r row
		s.row(&r, &w.in)
		w.add(KindSymbol, &r)
	}
	w.mu.Unlock()
}
