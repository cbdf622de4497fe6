package tracelog

// Each method adds one record. The record is the caller's again when it returns.
// After an error, or after Close, records are counted in Dropped instead.

// Meta adds a fact of the recording.
func (w *Writer) Meta(m *Meta) {
	if w.begin(KindMeta) {
		m.row(&w.row, &w.in)
		w.add(KindMeta, &w.row)
	}
	w.mu.Unlock()
}

// Function adds a function, before the first call that names it.
func (w *Writer) Function(f *Function) {
	if w.begin(KindFunction) {
		f.row(&w.row, &w.in)
		w.add(KindFunction, &w.row)
	}
	w.mu.Unlock()
}

// Process adds a process.
func (w *Writer) Process(p *Process) {
	if w.begin(KindProcess) {
		p.row(&w.row, &w.in)
		w.add(KindProcess, &w.row)
	}
	w.mu.Unlock()
}

// Thread adds or changes the name of a thread.
func (w *Writer) Thread(t *Thread) {
	if w.begin(KindThread) {
		t.row(&w.row, &w.in)
		w.add(KindThread, &w.row)
	}
	w.mu.Unlock()
}

// Call adds a call.
func (w *Writer) Call(c *Call) {
	if w.begin(KindCall) {
		c.row(&w.row)
		w.add(KindCall, &w.row)
	}
	w.mu.Unlock()
}

// Calls gives the writer to who adds many calls in a row, for the time until Release: each
// then takes no lock of its own. Nothing else can be done with the writer meanwhile.
func (w *Writer) Calls() Calls {
	w.mu.Lock()
	return Calls{w}
}

// Calls is a writer in one hand; see [Writer.Calls].
type Calls struct{ w *Writer }

// Add adds a call.
func (h Calls) Add(c *Call) {
	if h.w.takes(KindCall) {
		c.row(&h.w.row)
		h.w.add(KindCall, &h.w.row)
	}
}

// Release gives the writer back.
func (h Calls) Release() { h.w.mu.Unlock() }

// API adds an API record.
func (w *Writer) API(a *API) {
	if w.begin(KindAPI) {
		a.row(&w.row, &w.in)
		w.add(KindAPI, &w.row)
	}
	w.mu.Unlock()
}

// Kernel adds a kernel's execution.
func (w *Writer) Kernel(k *Kernel) {
	if w.begin(KindKernel) {
		k.row(&w.row, &w.in)
		w.add(KindKernel, &w.row)
	}
	w.mu.Unlock()
}

// Memcpy adds a copy.
func (w *Writer) Memcpy(m *Memcpy) {
	if w.begin(KindMemcpy) {
		m.row(&w.row)
		w.add(KindMemcpy, &w.row)
	}
	w.mu.Unlock()
}

// Memset adds a fill.
func (w *Writer) Memset(m *Memset) {
	if w.begin(KindMemset) {
		m.row(&w.row)
		w.add(KindMemset, &w.row)
	}
	w.mu.Unlock()
}

// Device adds a device.
func (w *Writer) Device(d *Device) {
	if w.begin(KindDevice) {
		d.row(&w.row, &w.in)
		w.add(KindDevice, &w.row)
	}
	w.mu.Unlock()
}

// Context adds a context.
func (w *Writer) Context(c *Context) {
	if w.begin(KindContext) {
		c.row(&w.row)
		w.add(KindContext, &w.row)
	}
	w.mu.Unlock()
}

// Stream adds a stream.
func (w *Writer) Stream(s *Stream) {
	if w.begin(KindStream) {
		s.row(&w.row)
		w.add(KindStream, &w.row)
	}
	w.mu.Unlock()
}

// Clock adds a reading of the clocks.
func (w *Writer) Clock(c *Clock) {
	if w.begin(KindClock) {
		c.row(&w.row)
		w.add(KindClock, &w.row)
	}
	w.mu.Unlock()
}

// CUPTI adds how CUPTI records a process.
func (w *Writer) CUPTI(c *CUPTI) {
	if w.begin(KindCUPTI) {
		c.row(&w.row, &w.in)
		w.add(KindCUPTI, &w.row)
	}
	w.mu.Unlock()
}

// Lost adds a loss.
func (w *Writer) Lost(l *Lost) {
	if w.begin(KindLost) {
		l.row(&w.row, &w.in)
		w.add(KindLost, &w.row)
	}
	w.mu.Unlock()
}

// Note adds a line for people.
func (w *Writer) Note(n *Note) {
	if w.begin(KindNote) {
		n.row(&w.row, &w.in)
		w.add(KindNote, &w.row)
	}
	w.mu.Unlock()
}

// ProcessEnd adds the end of a process.
func (w *Writer) ProcessEnd(p *ProcessEnd) {
	if w.begin(KindProcessEnd) {
		p.row(&w.row, &w.in)
		w.add(KindProcessEnd, &w.row)
	}
	w.mu.Unlock()
}

// Sync adds a synchronization.
func (w *Writer) Sync(s *Sync) {
	if w.begin(KindSync) {
		s.row(&w.row)
		w.add(KindSync, &w.row)
	}
	w.mu.Unlock()
}

// Overhead adds time that CUPTI or the driver took for itself.
func (w *Writer) Overhead(o *Overhead) {
	if w.begin(KindOverhead) {
		o.row(&w.row)
		w.add(KindOverhead, &w.row)
	}
	w.mu.Unlock()
}

// Marker adds an NVTX mark or an end of an NVTX range.
func (w *Writer) Marker(m *Marker) {
	if w.begin(KindMarker) {
		m.row(&w.row, &w.in)
		w.add(KindMarker, &w.row)
	}
	w.mu.Unlock()
}

// Name adds the name that the program gives to an object.
func (w *Writer) Name(n *Name) {
	if w.begin(KindName) {
		n.row(&w.row, &w.in)
		w.add(KindName, &w.row)
	}
	w.mu.Unlock()
}

// Memory adds an allocation or a release.
func (w *Writer) Memory(m *Memory) {
	if w.begin(KindMemory) {
		m.row(&w.row)
		w.add(KindMemory, &w.row)
	}
	w.mu.Unlock()
}

// MemoryPool adds what happened to a memory pool.
func (w *Writer) MemoryPool(m *MemoryPool) {
	if w.begin(KindMemoryPool) {
		m.row(&w.row)
		w.add(KindMemoryPool, &w.row)
	}
	w.mu.Unlock()
}

// Graph adds a whole graph's execution.
func (w *Writer) Graph(g *Graph) {
	if w.begin(KindGraph) {
		g.row(&w.row)
		w.add(KindGraph, &w.row)
	}
	w.mu.Unlock()
}

// Symbol adds the name behind a handle.
func (w *Writer) Symbol(s *Symbol) {
	if w.begin(KindSymbol) {
		s.row(&w.row, &w.in)
		w.add(KindSymbol, &w.row)
	}
	w.mu.Unlock()
}

// Flushed adds a time up to which the log is complete.
func (w *Writer) Flushed(f *Flushed) {
	if w.begin(KindFlushed) {
		f.row(&w.row)
		w.add(KindFlushed, &w.row)
	}
	w.mu.Unlock()
}
