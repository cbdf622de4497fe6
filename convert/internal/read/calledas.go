package read

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

// Called returns the function that the program called, for a call of f that was made at c. For a
// driver call that carries out the runtime's function around it, this is the runtime's function;
// so it is for a driver call that failed in a kernel launch, which the runtime then refused. For
// any other call it is f.
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

// CarriesOut reports whether a call of a driver's function inside a call of a runtime's function does what the program
// called that one for.
func (l *Functions) CarriesOut(driver, runtime *Function) bool {
	key := joinedKey{driver.recorded, runtime.recorded}
	carries, known := l.carries[key]
	if !known {
		carries = cudaapi.CarriesOut(driver.recorded.Name, runtime.recorded.Name)
		l.carries[key] = carries
	}
	return carries
}

// Refused reports whether a call of the driver's function f at c is a failed lookup, for which the
// runtime refuses the launch around it.
func (c *Caller) Refused(f *Function, ret int32) bool {
	return c.traits.Launches && !f.MayWork && ret != 0 && ret != cudaapi.ErrorNotReady
}

// Renamed reports whether f is a driver's function under the name of the runtime's function
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
	as.Function = timeline.NewFunction(name, cudaapi.Runtime.String(), l.count)
	as.Function.Driver, as.Params, as.Wait = f.Name, f.Params, f.Wait
	as.base, as.recorded = cudaapi.Unversioned(name), f
	if launch := cudaapi.TraitsOf(name); launch.Launches && !f.MayWork { // a refused launch
		as.Traits = launch
	}
	l.count++
	l.called[key] = as
	return as
}

// Joined returns the runtime's function f for calls with a recorded call of inner, a driver's
// function, inside them. It has the arguments of inner, and the arguments of f that inner lacks.
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

// Holds reports whether f is a result of Joined for a driver's function.
func (f *Function) Holds(driver *Function) bool { return f.inner != nil && f.inner.Same(driver) }

// JoinedArguments returns the arguments of a call of f, a result of Joined, from the arguments of
// the driver's function (inner) and of the runtime's function (outer).
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

// Around reports whether f is the runtime's function that the program called at c.
func (f *Function) Around(c *Caller) bool {
	return f.base == c.base && f.Library == cudaapi.Runtime.String()
}
