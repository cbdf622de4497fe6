package tracelog

// The typed view of a block. Each method fills the record from row i, 0 <= i < N,
// without allocating; it panics on a block of another kind, which is a mistake of
// the caller and never one of the file. A value too large for its member, which no
// writer makes, loses its upper bits.

// Meta reads row i of a block of KindMeta.
func (b *Block) Meta(i int, m *Meta) {
	b.must(KindMeta)
	m.Key, m.Value = b.str(0, i), b.str(1, i)
}

// Function reads row i of a block of KindFunction.
func (b *Block) Function(i int, f *Function) {
	b.must(KindFunction)
	f.ID, f.Name, f.Library = uint32(b.at(0, i)), b.str(1, i), b.str(2, i)
	f.Args = b.str(3, i)
}

// Process reads row i of a block of KindProcess.
func (b *Block) Process(i int, p *Process) {
	b.must(KindProcess)
	p.PID, p.PPID, p.Start = uint32(b.at(0, i)), uint32(b.at(1, i)), b.at(2, i)
	p.Exe, p.Args = b.str(3, i), b.str(4, i)
}

// Thread reads row i of a block of KindThread.
func (b *Block) Thread(i int, t *Thread) {
	b.must(KindThread)
	t.PID, t.TID, t.Name = uint32(b.at(0, i)), uint32(b.at(1, i)), b.str(2, i)
	t.LocalTID = uint32(b.at(3, i))
}

// Call reads row i of a block of KindCall.
func (b *Block) Call(i int, c *Call) {
	b.must(KindCall)
	c.PID, c.TID, c.Func, c.Flags = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i)), uint32(b.at(3, i))
	c.Enter, c.Dur = b.at(4, i), b.at(5, i)
	c.Ret = int32(unzigzag(b.at(6, i)))
	c.NArgs = uint32(min(b.at(7, i), MaxArgs))
	clear(c.Args[c.NArgs:])
	for k := range c.Args[:c.NArgs] {
		c.Args[k] = b.at(callArg0+k, i)
	}
}

// API reads row i of a block of KindAPI.
func (b *Block) API(i int, a *API) {
	b.must(KindAPI)
	a.PID, a.TID, a.Domain = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i))
	a.CBID, a.Name, a.Start = uint32(b.at(3, i)), b.str(4, i), b.at(5, i)
	a.Dur, a.Correlation, a.Ret = b.at(6, i), uint32(b.at(7, i)), uint32(b.at(8, i))
}

func (b *Block) gpu(i int, g *GPU) {
	g.PID, g.Device, g.Context = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i))
	g.Stream, g.Correlation, g.Graph = uint32(b.at(3, i)), uint32(b.at(4, i)), uint32(b.at(5, i))
	g.GraphNode, g.Start, g.Dur = b.at(6, i), b.at(7, i), b.at(8, i)
}

// Kernel reads row i of a block of KindKernel.
func (b *Block) Kernel(i int, k *Kernel) {
	b.must(KindKernel)
	b.gpu(i, &k.GPU)
	k.Name = b.str(9, i)
	for d := range 3 {
		k.Grid[d], k.Block[d], k.Cluster[d] = uint32(b.at(10+d, i)), uint32(b.at(13+d, i)), uint32(b.at(16+d, i))
	}
	k.StaticShared, k.DynamicShared = uint32(b.at(19, i)), uint32(b.at(20, i))
	k.LocalPerThread, k.Registers = uint32(b.at(21, i)), uint32(b.at(22, i))
}

// Memcpy reads row i of a block of KindMemcpy.
func (b *Block) Memcpy(i int, m *Memcpy) {
	b.must(KindMemcpy)
	b.gpu(i, &m.GPU)
	m.Bytes, m.CopyKind, m.SrcKind = b.at(9, i), uint32(b.at(10, i)), uint32(b.at(11, i))
	m.DstKind, m.SrcDevice, m.DstDevice = uint32(b.at(12, i)), uint32(b.at(13, i)), uint32(b.at(14, i))
}

// Memset reads row i of a block of KindMemset.
func (b *Block) Memset(i int, m *Memset) {
	b.must(KindMemset)
	b.gpu(i, &m.GPU)
	m.Bytes, m.Value = b.at(9, i), uint32(b.at(10, i))
}

// Device reads row i of a block of KindDevice.
func (b *Block) Device(i int, d *Device) {
	b.must(KindDevice)
	d.PID, d.ID, d.Name = uint32(b.at(0, i)), uint32(b.at(1, i)), b.str(2, i)
	d.UUID, d.Major, d.Minor = b.str(3, i), uint32(b.at(4, i)), uint32(b.at(5, i))
	d.Multiprocessors, d.Memory, d.Bandwidth = uint32(b.at(6, i)), b.at(7, i), b.at(8, i)
}

// Context reads row i of a block of KindContext.
func (b *Block) Context(i int, c *Context) {
	b.must(KindContext)
	c.PID, c.ID, c.Device = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i))
	c.NullStream = uint32(b.at(3, i))
}

// Stream reads row i of a block of KindStream.
func (b *Block) Stream(i int, s *Stream) {
	b.must(KindStream)
	s.PID, s.Context, s.ID = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i))
	s.Priority, s.Flags = int32(unzigzag(b.at(3, i))), uint32(b.at(4, i))
}

// Clock reads row i of a block of KindClock.
func (b *Block) Clock(i int, c *Clock) {
	b.must(KindClock)
	c.Monotonic, c.Realtime, c.Boottime = b.at(0, i), b.at(1, i), b.at(2, i)
}

// CUPTI reads row i of a block of KindCUPTI.
func (b *Block) CUPTI(i int, c *CUPTI) {
	b.must(KindCUPTI)
	c.PID, c.Version, c.DriverVersion = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i))
	c.Path, c.Status, c.ClockError = b.str(3, i), b.str(4, i), b.at(5, i)
}

// Lost reads row i of a block of KindLost.
func (b *Block) Lost(i int, l *Lost) {
	b.must(KindLost)
	l.PID, l.Cause, l.Count = uint32(b.at(0, i)), b.str(1, i), b.at(2, i)
	l.From, l.To = b.at(3, i), b.at(4, i)
}

// Note reads row i of a block of KindNote.
func (b *Block) Note(i int, n *Note) {
	b.must(KindNote)
	n.Time, n.PID, n.Severity = b.at(0, i), uint32(b.at(1, i)), uint32(b.at(2, i))
	n.Text = b.str(3, i)
}

// ProcessEnd reads row i of a block of KindProcessEnd.
func (b *Block) ProcessEnd(i int, p *ProcessEnd) {
	b.must(KindProcessEnd)
	p.PID, p.Time, p.Status = uint32(b.at(0, i)), b.at(1, i), int32(unzigzag(b.at(2, i)))
	p.Complete, p.Kernels, p.Copies = uint32(b.at(3, i)), b.at(4, i), b.at(5, i)
	p.Sets, p.APIs = b.at(6, i), b.at(7, i)
	p.Until, p.Reason = b.at(8, i), b.str(9, i)
}

// End reads row i of a block of KindEnd.
func (b *Block) End(i int, e *End) {
	b.must(KindEnd)
	e.Time, e.Complete, e.Reason = b.at(0, i), uint32(b.at(1, i)), b.str(2, i)
}

// Sync reads row i of a block of KindSync.
func (b *Block) Sync(i int, s *Sync) {
	b.must(KindSync)
	s.PID, s.Type, s.Context = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i))
	s.Stream, s.Event, s.Correlation = uint32(b.at(3, i)), uint32(b.at(4, i)), uint32(b.at(5, i))
	s.Start, s.Dur = b.at(6, i), b.at(7, i)
}

// Overhead reads row i of a block of KindOverhead.
func (b *Block) Overhead(i int, o *Overhead) {
	b.must(KindOverhead)
	o.PID, o.Kind, o.ObjectKind = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i))
	o.TID, o.Start, o.Dur = uint32(b.at(3, i)), b.at(4, i), b.at(5, i)
}

// Marker reads row i of a block of KindMarker.
func (b *Block) Marker(i int, m *Marker) {
	b.must(KindMarker)
	m.PID, m.TID, m.Flags, m.ID = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i)), uint32(b.at(3, i))
	m.Time, m.Name, m.Domain = b.at(4, i), b.str(5, i), b.str(6, i)
}

// Name reads row i of a block of KindName.
func (b *Block) Name(i int, n *Name) {
	b.must(KindName)
	n.PID, n.ObjectKind, n.ID = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i))
	n.Context, n.Device, n.Name = uint32(b.at(3, i)), uint32(b.at(4, i)), b.str(5, i)
}

// Memory reads row i of a block of KindMemory.
func (b *Block) Memory(i int, m *Memory) {
	b.must(KindMemory)
	m.PID, m.TID, m.Operation = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i))
	m.MemoryKind, m.Device, m.Context = uint32(b.at(3, i)), uint32(b.at(4, i)), uint32(b.at(5, i))
	m.Stream, m.Correlation, m.Async = uint32(b.at(6, i)), uint32(b.at(7, i)), uint32(b.at(8, i))
	m.Time, m.Address, m.Bytes, m.Pool = b.at(9, i), b.at(10, i), b.at(11, i), b.at(12, i)
}

// MemoryPool reads row i of a block of KindMemoryPool.
func (b *Block) MemoryPool(i int, m *MemoryPool) {
	b.must(KindMemoryPool)
	m.PID, m.Operation, m.PoolKind = uint32(b.at(0, i)), uint32(b.at(1, i)), uint32(b.at(2, i))
	m.Device, m.Correlation, m.Time = uint32(b.at(3, i)), uint32(b.at(4, i)), b.at(5, i)
	m.Address, m.Size = b.at(6, i), b.at(7, i)
	m.ReleaseThreshold, m.MinBytesToKeep = b.at(8, i), b.at(9, i)
}

// Graph reads row i of a block of KindGraph.
func (b *Block) Graph(i int, g *Graph) {
	b.must(KindGraph)
	b.gpu(i, &g.GPU)
}

// Symbol reads row i of a block of KindSymbol.
func (b *Block) Symbol(i int, s *Symbol) {
	b.must(KindSymbol)
	s.PID, s.Time, s.Handle = uint32(b.at(0, i)), b.at(1, i), b.at(2, i)
	s.Of, s.Name = b.at(3, i), b.str(4, i)
}

// Flushed reads row i of a block of KindFlushed.
func (b *Block) Flushed(i int, f *Flushed) {
	b.must(KindFlushed)
	f.PID, f.Until = uint32(b.at(0, i)), b.at(1, i)
}
