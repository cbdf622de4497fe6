package tracelog

import (
	"strconv"
	"strings"
)

// Steps names the NVTX ranges that are the steps of a program. The zero Steps names none.
type Steps struct {
	Name   string
	Domain string // "" for the default domain, "*" for any
}

// Counted is the number of a step whose name has none: such steps are counted from 0 in each process.
const Counted = -1

// Number reports whether a range is a step, and returns its number: that behind the name ("step 7", "step_7", "step#7"), or Counted. PyTorch adds
// further facts behind a comma.
func (s Steps) Number(name, domain string) (n int64, is bool) {
	rest, named := strings.CutPrefix(name, s.Name)
	if !named || s.Name == "" || s.Domain != "*" && s.Domain != domain {
		return 0, false
	}
	rest, _, _ = strings.Cut(rest, ",")
	if rest == "" {
		return Counted, true
	}
	digits := strings.TrimLeft(rest, " _-#:=./")
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n >= 0 && len(digits) <= 10
}
