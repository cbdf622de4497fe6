// Package clockfit finds how the clocks of hosts run against each other, from collectives that end on no host before
// the last host has entered them.
//
// Input: for each collective, when each host entered it and left it, on the host's clock. Output: for each host a
// clock that leads to that of one of them, and how far it is wrong at most.
//
// Let C be the conversion of a host's times to those of the reference, a line: offset and drift. Each collective of the two says
//
//	C(left) >= entered by the reference    C(entered) <= left by the reference
//
// All of them together leave a convex set of lines (fit.go). Where each host is now and then the last one, the set is as
// narrow as the shortest collective. The estimate is the line along which the ends agree, if it is one of the set, or the set's middle. Its
// error is the distance to the farthest line of the set. A clock that no line fits, because its drift changes, gets several lines, each
// for a part of the time (host.go). At last the lines are moved until no collective of any two hosts contradicts them (settle.go).
package clockfit
