package join

import (
	"github.com/cudatrace/cudatrace/convert/catalog"
	"github.com/cudatrace/cudatrace/convert/merge"
)

// The record of a driver call may say which function of the runtime the program called. That
// function may have been recorded as well: then both records are of one call of the program.
//
//	around the driver call                  what is shown
//	nothing recorded                        one slice: the driver's interval, the runtime's name
//	a uprobe pair of the runtime function   one slice: the runtime's interval and name, the arguments of both
//	an API record of the runtime function   two slices with their own names, one inside the other

// shown returns the function that a call of f is shown as. A driver call bears the name of
// the runtime's function that the program called, unless a slice around it bears that name.
func (s *stack) shown(f *catalog.Function, at *catalog.Caller, ret int32) *catalog.Function {
	if at.Function == "" || s.around(at) != nil {
		return f
	}
	return s.functions.Called(f, at, ret)
}

// around returns the open call of the runtime's function that was called at a place, nil
// without one.
func (s *stack) around(at *catalog.Caller) *call {
	for _, o := range s.open {
		if o.fn.Around(at) {
			return o
		}
	}
	return nil
}

// inherit gives the slice of a runtime call the caller that its driver call names.
func (s *stack) inherit(r *merge.Call) {
	if r.Caller == nil || r.Caller.Function == "" {
		return
	}
	if o := s.around(r.Caller); o != nil && o.Caller == nil {
		o.Caller = r.Caller.Place
	}
}

// isInner says whether a driver's record is part of the probed runtime call c: it creates
// the work of that call, or is why that call was refused.
func (s *stack) isInner(c *call, r *merge.Call, from state) bool {
	switch {
	case from == fromPair && c.state&innerPair != 0, from == fromAPI && c.state&innerAPI != 0:
		return false
	case c.state&(innerPair|innerAPI) != 0:
		return c.fn.Holds(r.Function)
	case r.Caller == nil || !r.Function.Driver || !c.fn.Runtime || !c.fn.Around(r.Caller):
		return false
	}
	return r.Function.MayWork || r.Caller.Refused(r.Function, r.Ret) && r.Ret == c.Ret
}

// addInner makes a driver's record part of the probed runtime call c.
func (s *stack) addInner(c *call, r *merge.Call, from state) {
	if from == fromPair || !c.fn.Holds(r.Function) {
		c.fn = s.functions.Joined(c.fn, r.Function)
		c.Function = &c.fn.Function
	}
	if from == fromAPI {
		c.Correlation = r.Correlation
		c.state |= innerAPI
		s.found.Calls.Joined++
		return
	}
	c.Arguments = s.calls.NewArguments(c.fn.JoinedArguments(r.Arguments.Args, c.Arguments.Args))
	c.stream = c.fn.StreamHandle(c.Arguments.Args)
	c.state |= innerPair
}
