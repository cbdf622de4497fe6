package catalog

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A calledKey is a driver's function with the runtime's function around it.
type calledKey struct {
	driver  *Function
	runtime string
}

// A joinedKey is a driver's function with the runtime's function around it, both recorded.
type joinedKey struct{ driver, runtime *Function }

// Called returns the function that the program called when a call of f was made at c. It is
// the runtime's function around a driver call that carries it out, or that failed in a kernel
// launch, which the runtime then refused. It is f itself for any other call.
func (l *Functions) Called(f *Function, c *Caller, ret int32) *Function {
	if c.Function == "" || !f.Driver {
		return f
	}
	if c.recorded != f {
		c.recorded, c.called = f, f
		if cudaapi.CarriesOut(f.Name, c.Function) {
			c.called = l.As(f, c.Function)
		}
	}
	if c.called == f && c.Refused(f, ret) {
		return l.As(f, c.Function)
	}
	return c.called
}

// Refused says whether a call of a driver's function made at c is the end of a launch that
// the runtime refused: a lookup that failed.
func (c *Caller) Refused(f *Function, ret int32) bool {
	return c.traits.Launches && !f.MayWork && ret != 0 && ret != cudaapi.NotReady
}

// Renamed says whether f is a driver's function under the name of the runtime's function
// around it.
func (f *Function) Renamed() bool { return f.recorded != f && f.inner == nil }

// As returns a driver's function under the name of the runtime's function around it.
func (l *Functions) As(f *Function, name string) *Function {
	f = f.recorded
	key := calledKey{f, name}
	as := l.called[key]
	if as != nil {
		return as
	}
	as = new(*f)
	as.Function = timeline.Function{Name: name, Library: cudaapi.Runtime.String(), Driver: f.Name, Params: f.Params, ID: l.count}
	as.base, as.recorded = cudaapi.Unversioned(name), f
	if launch := cudaapi.TraitsOf(name); launch.Launches && !f.MayWork { // one that was refused
		as.Traits = launch
	}
	l.count++
	l.called[key] = as
	return as
}

// Joined returns the runtime's function f for calls inside which inner, a driver's function,
// is recorded as well. Its arguments are those of inner, and those of f that inner lacks.
func (l *Functions) Joined(f, inner *Function) *Function {
	f, inner = f.recorded, inner.recorded
	key := joinedKey{inner, f}
	both := l.joined[key]
	if both != nil {
		return both
	}
	both = new(*f)
	both.ID, both.GPUWork, both.inner = l.count, inner.GPUWork, inner
	both.kernel, both.stream, both.ownDefault = inner.kernel, inner.stream, inner.ownDefault
	both.Function.Driver, both.Params = inner.Name, slices.Clone(inner.Params)
	for i, p := range f.Params {
		named := func(o timeline.Param) bool { return o.Name == p.Name }
		if !slices.ContainsFunc(inner.Params, named) {
			both.added, both.Params = append(both.added, i), append(both.Params, p)
		}
	}
	l.count++
	l.joined[key] = both
	return both
}

// Holds says whether calls of a driver's function are part of those of f, which Joined
// returned.
func (f *Function) Holds(driver *Function) bool { return f.inner != nil && f.inner.Same(driver) }

// JoinedArguments returns the arguments of a call of a function that Joined returned, from
// those of the driver's function and those of the runtime's.
func (f *Function) JoinedArguments(inner, outer []uint64) []uint64 {
	if n := len(f.inner.Params); len(inner) != n {
		return inner[:min(len(inner), n)]
	}
	all := slices.Clone(inner)
	for _, i := range f.added {
		if i >= len(outer) {
			break
		}
		all = append(all, outer[i])
	}
	return all
}

// Around says whether f, as it is shown, is the runtime's function that was called at c.
func (f *Function) Around(c *Caller) bool {
	return f.base == c.base && f.Library == cudaapi.Runtime.String()
}
