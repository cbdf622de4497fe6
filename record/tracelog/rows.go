package tracelog

// A row is a record as numbers, one for each field of its table and in the
// table's order; what lies beyond the table's fields has no meaning. The methods below
// are the only place that knows which member of a record is which field; a test holds
// them against the tables.
type row [32]uint64

// Names are interned while the row is made, so these run under the writer's lock.

func (m *Meta) row(r *row, in *interner) {
	*r = row{in.id(m.Key), in.id(m.Value)}
}

func (f *Function) row(r *row, in *interner) {
	*r = row{uint64(f.ID), in.id(f.Name), in.id(f.Library), in.id(f.Args)}
}

func (p *Process) row(r *row, in *interner) {
	*r = row{uint64(p.PID), uint64(p.PPID), p.Start, in.id(p.Exe), in.id(p.Args)}
}

func (t *Thread) row(r *row, in *interner) {
	*r = row{uint64(t.PID), uint64(t.TID), in.id(t.Name), uint64(t.LocalTID)}
}

// Arguments from NArgs on are not recorded.
func (c *Call) row(r *row) {
	nargs := min(c.NArgs, MaxArgs)
	r[0], r[1], r[2], r[3] = uint64(c.PID), uint64(c.TID), uint64(c.Func), uint64(c.Flags)
	r[4], r[5], r[6], r[7] = c.Enter, c.Dur, zigzag(int64(c.Ret)), uint64(nargs)
	args := (*[MaxArgs]uint64)(r[callArg0:])
	*args = c.Args
	clear(args[nargs:])
}

// callArg0 is the field of a call's first argument.
const callArg0 = 8

func (a *API) row(r *row, in *interner) {
	r[0], r[1], r[2], r[3] = uint64(a.PID), uint64(a.TID), uint64(a.Domain), uint64(a.CBID)
	r[4], r[5], r[6], r[7], r[8] = in.id(a.Name), a.Start, a.Dur, uint64(a.Correlation), uint64(a.Ret)
}

func (g *GPU) row(r *row) {
	r[0], r[1], r[2], r[3] = uint64(g.PID), uint64(g.Device), uint64(g.Context), uint64(g.Stream)
	r[4], r[5], r[6], r[7], r[8] = uint64(g.Correlation), uint64(g.Graph), g.GraphNode, g.Start, g.Dur
}

func (k *Kernel) row(r *row, in *interner) {
	k.GPU.row(r)
	r[9] = in.id(k.Name)
	r[10], r[11], r[12] = uint64(k.Grid[0]), uint64(k.Grid[1]), uint64(k.Grid[2])
	r[13], r[14], r[15] = uint64(k.Block[0]), uint64(k.Block[1]), uint64(k.Block[2])
	r[16], r[17], r[18] = uint64(k.Cluster[0]), uint64(k.Cluster[1]), uint64(k.Cluster[2])
	r[19], r[20], r[21], r[22] = uint64(k.StaticShared), uint64(k.DynamicShared), uint64(k.LocalPerThread), uint64(k.Registers)
}

func (m *Memcpy) row(r *row) {
	m.GPU.row(r)
	r[9] = m.Bytes
	r[10], r[11], r[12] = uint64(m.CopyKind), uint64(m.SrcKind), uint64(m.DstKind)
	r[13], r[14] = uint64(m.SrcDevice), uint64(m.DstDevice)
}

func (m *Memset) row(r *row) {
	m.GPU.row(r)
	r[9], r[10] = m.Bytes, uint64(m.Value)
}

func (d *Device) row(r *row, in *interner) {
	*r = row{uint64(d.PID), uint64(d.ID), in.id(d.Name), in.id(d.UUID), uint64(d.Major),
		uint64(d.Minor), uint64(d.Multiprocessors), d.Memory, d.Bandwidth}
}

func (c *Context) row(r *row) {
	*r = row{uint64(c.PID), uint64(c.ID), uint64(c.Device), uint64(c.NullStream)}
}

func (s *Stream) row(r *row) {
	*r = row{uint64(s.PID), uint64(s.Context), uint64(s.ID), zigzag(int64(s.Priority)),
		uint64(s.Flags)}
}

func (c *Clock) row(r *row) {
	*r = row{c.Monotonic, c.Realtime, c.Boottime}
}

func (c *CUPTI) row(r *row, in *interner) {
	*r = row{uint64(c.PID), uint64(c.Version), uint64(c.DriverVersion), in.id(c.Path),
		in.id(c.Status), c.ClockError}
}

func (l *Lost) row(r *row, in *interner) {
	*r = row{uint64(l.PID), in.id(l.Cause), l.Count, l.From, l.To}
}

func (n *Note) row(r *row, in *interner) {
	*r = row{n.Time, uint64(n.PID), uint64(n.Severity), in.id(n.Text)}
}

func (p *ProcessEnd) row(r *row, in *interner) {
	*r = row{uint64(p.PID), p.Time, zigzag(int64(p.Status)), uint64(p.Complete), p.Kernels,
		p.Copies, p.Sets, p.APIs, p.Until, in.id(p.Reason)}
}

func (e *End) row(r *row, in *interner) {
	*r = row{e.Time, uint64(e.Complete), in.id(e.Reason)}
}

func (s *Sync) row(r *row) {
	*r = row{uint64(s.PID), uint64(s.Type), uint64(s.Context), uint64(s.Stream),
		uint64(s.Event), uint64(s.Correlation), s.Start, s.Dur}
}

func (o *Overhead) row(r *row) {
	*r = row{uint64(o.PID), uint64(o.Kind), uint64(o.ObjectKind), uint64(o.TID), o.Start, o.Dur}
}

func (m *Marker) row(r *row, in *interner) {
	*r = row{uint64(m.PID), uint64(m.TID), uint64(m.Flags), uint64(m.ID), m.Time,
		in.id(m.Name), in.id(m.Domain)}
}

func (n *Name) row(r *row, in *interner) {
	*r = row{uint64(n.PID), uint64(n.ObjectKind), uint64(n.ID), uint64(n.Context),
		uint64(n.Device), in.id(n.Name)}
}

func (m *Memory) row(r *row) {
	*r = row{uint64(m.PID), uint64(m.TID), uint64(m.Operation), uint64(m.MemoryKind),
		uint64(m.Device), uint64(m.Context), uint64(m.Stream), uint64(m.Correlation),
		uint64(m.Async), m.Time, m.Address, m.Bytes, m.Pool}
}

func (m *MemoryPool) row(r *row) {
	*r = row{uint64(m.PID), uint64(m.Operation), uint64(m.PoolKind), uint64(m.Device),
		uint64(m.Correlation), m.Time, m.Address, m.Size, m.ReleaseThreshold, m.MinBytesToKeep}
}

func (s *Symbol) row(r *row, in *interner) {
	*r = row{uint64(s.PID), s.Time, s.Handle, s.Of, in.id(s.Name)}
}

func (f *Flushed) row(r *row) {
	*r = row{uint64(f.PID), f.Until}
}
