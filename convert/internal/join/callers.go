package join

import (
	"github.com/cudatrace/cudatrace/convert/internal/read"
)

// The caller record of a driver call may name the runtime's function that the program called. If
// that function was recorded too, both records belong to one call of the program.
//
//	around the driver call                  what is shown
//	nothing recorded                        one slice: the driver's interval, the runtime's name
//	a uprobe pair of the runtime function   one slice: the runtime's interval and name, the arguments of both
//	an API record of the runtime function   two slices with their own names, one inside the other

// shown returns the function for the slice of a call of f. A driver call bears the name of the
// runtime's function that the program called, unless a slice around it bears that name.
func (s *stack) shown(f *read.Function, at *read.Caller, ret int32) *read.Function {
	if at.Function == "" || s.around(at) != nil {
		return f
	}
	return s.functions.Called(f, at, ret)
}

// around returns the open call of the runtime's function that the program called at a place, nil
// if there is none.
func (s *stack) around(at *read.Caller) *call {
	for _, o := range s.open {
		if o.fn.Around(at) {
			return o
		}
	}
	return nil
}

// inherit gives the slice of a runtime call the caller of its driver call.
func (s *stack) inherit(r *read.Call) {
	if r.Caller == nil || r.Caller.Function == "" {
		return
	}
	if o := s.around(r.Caller); o != nil && o.Caller == nil {
		o.Caller = r.Caller.Place
	}
}

// isInner reports whether a driver's record is part of the probed runtime call c: the driver call
// creates the work of c, or its failure made the runtime refuse c, or it carries out c.
func (s *stack) isInner(c *call, r *read.Call, from state) bool {
	switch {
	case c.state&fromPair == 0 || from == fromPair && c.state&innerPair != 0 || from == fromAPI && c.state&innerAPI != 0:
		return false
	case c.state&(innerPair|innerAPI) != 0:
		return c.state&fromAPI == 0 && c.fn.Holds(r.Function)
	case (r.Function.Beside || from == fromAPI && !r.Function.MayWork) && c.fn.Runtime && s.functions.CarriesOut(r.Function, c.fn):
		return true
	case c.state&fromAPI != 0:
		return false
	case r.Caller == nil || !r.Function.Driver || !c.fn.Runtime || !c.fn.Around(r.Caller):
		return false
	}
	return r.Function.MayWork || r.Caller.Refused(r.Function, r.Ret) && r.Ret == c.Ret
}

// addInner makes a driver's record part of the probed runtime call c.
func (s *stack) addInner(c *call, r *read.Call, from state) {
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
