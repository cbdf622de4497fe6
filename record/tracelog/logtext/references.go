package logtext

import (
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// maxReferences bounds the memory of References. Where a log refers to more things, all its
// definitions are shown.
const maxReferences = 1 << 20

// References are the things to which the records of a log refer: processes, streams, functions.
type References struct {
	things map[thing]bool
	last   [256]thing // added last, by kind: most records refer to the same as the one before
	full   bool
}

// A thing is what a definition defines.
type thing struct {
	kind  tracelog.Kind
	pid   uint64
	of    uint64 // the context of a stream
	which uint64
}

// Refer reads a log to its end and returns the things to which the records refer that Dump shows
// with the same options. What is damaged is in r.Damage; the error is that of reading the file.
func Refer(r *tracelog.Reader, o Options) (*References, error) {
	refs := &References{things: make(map[thing]bool)}
	f := finder{References: refs, functions: newFunctions(), of: make(map[thing]uint64)}
	if !o.prepare() {
		if err := r.Select(withNames(o.Filter)); err != nil {
			return nil, err
		}
	}
	for r.Next() && !refs.full {
		f.block(r.Block(), &o)
	}
	for symbol, of := range f.of { // a launch names the handle that was made of the named one
		if refs.things[symbol] {
			refs.refer(tracelog.KindSymbol, symbol.pid, 0, of)
		}
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return nil, err
	}
	return refs, nil
}

func (r *References) refer(kind tracelog.Kind, pid, of, which uint64) {
	t := thing{kind, pid, of, which}
	if r.last[kind] == t || r.full {
		return
	}
	r.last[kind] = t
	r.things[t] = true
	r.full = len(r.things) >= maxReferences
}

// A finder finds references.
type finder struct {
	*References
	functions functions
	of        map[thing]uint64 // handles without a name of their own: the handle that has it
}

func (f *finder) block(b *tracelog.Block, o *Options) {
	if !b.Known() {
		return
	}
	l := schema.LayoutOf(b.Kind)
	switch {
	case b.Kind == tracelog.KindFunction:
		f.functions.addBlock(b)
	case b.Kind == tracelog.KindSymbol:
		pid, handle, of := b.Column("pid"), b.Column("handle"), b.Column("of")
		for i := range b.N {
			if of.At(i) != 0 && len(f.of) < maxReferences {
				f.of[thing{b.Kind, pid.At(i), 0, handle.At(i)}] = of.At(i)
			}
		}
	case l == nil || l.Role == schema.Definition || l.Role == schema.Watermark:
	default:
		f.records(b, l, o)
	}
}

// records adds the things to which the shown records of a block refer.
func (f *finder) records(b *tracelog.Block, l *schema.Layout, o *Options) {
	at := func(field string, i int) (uint64, bool) {
		if l.Field(field) < 0 {
			return 0, false
		}
		c := b.Column(field)
		return c.At(i), true
	}
	for i := range b.N {
		if !o.shows(b, i) {
			continue
		}
		pid, _ := at("pid", i)
		f.refer(tracelog.KindProcess, pid, 0, pid)
		if tid, ok := at("tid", i); ok {
			f.refer(tracelog.KindThread, pid, 0, tid)
		}
		for _, field := range []string{"device", "src_device", "dst_device"} {
			if device, ok := at(field, i); ok {
				f.refer(tracelog.KindDevice, pid, 0, device)
			}
		}
		if context, ok := at("context", i); ok {
			f.refer(tracelog.KindContext, pid, 0, context)
			stream, _ := at("stream", i)
			f.refer(tracelog.KindStream, pid, context, stream)
		}
		if set, ok := at("set", i); ok {
			f.refer(tracelog.KindMetricSet, 0, 0, set)
		}
		if caller, ok := at("caller", i); ok {
			f.refer(tracelog.KindCaller, 0, 0, caller)
		}
		switch b.Kind {
		case tracelog.KindCall:
			f.call(b, i, pid)
		case tracelog.KindFunctionEvent:
			function, _ := at("func", i)
			f.refer(tracelog.KindFunction, 0, 0, function)
		}
	}
}

// call adds the function of a call, and the handles among its arguments.
func (f *finder) call(b *tracelog.Block, i int, pid uint64) {
	of, nargs := b.Column("func"), b.Column("nargs")
	id := of.At(i)
	f.refer(tracelog.KindFunction, 0, 0, id)
	for k, arg := range f.functions.byID[id].args {
		if arg.handle && uint64(k) < nargs.At(i) {
			c := b.Column(argNames[k])
			f.refer(tracelog.KindSymbol, pid, 0, c.At(i))
		}
	}
}

// names reports whether a record is no definition, or one of a thing to which others refer.
func (r *References) names(b *tracelog.Block, i int) bool {
	l := schema.LayoutOf(b.Kind)
	if r.full || !b.Known() || l == nil || l.Role != schema.Definition {
		return true
	}
	at := func(field string) uint64 {
		c := b.Column(field)
		return c.At(i)
	}
	switch b.Kind {
	case tracelog.KindFunction, tracelog.KindCaller:
		return r.things[thing{b.Kind, 0, 0, at("id")}]
	case tracelog.KindMetricSet:
		return r.things[thing{b.Kind, 0, 0, at("id")}]
	case tracelog.KindMetric:
		return r.things[thing{tracelog.KindMetricSet, 0, 0, at("set")}]
	case tracelog.KindProcess, tracelog.KindCUPTI:
		return r.things[thing{tracelog.KindProcess, at("pid"), 0, at("pid")}]
	case tracelog.KindThread:
		local := at("local_tid")
		return r.things[thing{b.Kind, at("pid"), 0, at("tid")}] || local != 0 && r.things[thing{b.Kind, at("pid"), 0, local}]
	case tracelog.KindDevice, tracelog.KindContext:
		return r.things[thing{b.Kind, at("pid"), 0, at("id")}]
	case tracelog.KindStream:
		return r.things[thing{b.Kind, at("pid"), at("context"), at("id")}]
	case tracelog.KindSymbol:
		return r.things[thing{b.Kind, at("pid"), 0, at("handle")}]
	case tracelog.KindName:
		return r.named(at("object_kind"), at("pid"), at("context"), at("id"))
	}
	return true
}

// objects are the kinds of record that define what a Name names.
var objects = map[uint64]tracelog.Kind{
	tracelog.ObjectThread: tracelog.KindThread, tracelog.ObjectDevice: tracelog.KindDevice,
	tracelog.ObjectContext: tracelog.KindContext, tracelog.ObjectStream: tracelog.KindStream,
}

// named reports whether records refer to an object that the program has named.
func (r *References) named(object, pid, context, id uint64) bool {
	kind, ok := objects[object]
	if kind != tracelog.KindStream {
		context = 0
	}
	return !ok || r.things[thing{kind, pid, context, id}]
}

// KindNames are the names of all kinds of record.
func KindNames() (names []string) {
	for _, t := range schema.Records() {
		if t.Kind != schema.Strings {
			names = append(names, t.Name)
		}
	}
	return names
}
