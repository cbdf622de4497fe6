package ring

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Condition asks for a snapshot when it holds.
type Condition struct {
	what   subject
	limit  time.Duration // of a call or a kernel
	factor float64       // of a step
}

// A subject is what a condition is about.
type subject int

const (
	failedCalls subject = iota
	longCalls
	longKernels
	slowSteps
)

// ParseCondition reads a condition: call-failed, call>TIME, kernel>TIME or step>FACTOR.
func ParseCondition(s string, parseTime func(string) (time.Duration, error)) (Condition, error) {
	name, limit, limited := strings.Cut(s, ">")
	what, known := map[string]subject{"call-failed": failedCalls, "call": longCalls, "kernel": longKernels, "step": slowSteps}[name]
	c := Condition{what: what}
	switch {
	case !known:
		return c, fmt.Errorf("must be call-failed, call>TIME, kernel>TIME or step>FACTOR, not %q", s)
	case what == failedCalls && limited:
		return c, fmt.Errorf("%q: call-failed has no limit", s)
	case what == failedCalls:
		return c, nil
	case limit == "":
		return c, fmt.Errorf("%q lacks a limit: write '%s>...' in quotes, as > is the shell's", s, name)
	case what == slowSteps:
		f, err := strconv.ParseFloat(limit, 64)
		if err != nil || !(f > 1 && f <= 1e6) {
			return c, fmt.Errorf("%q: the factor must be a number above 1, such as 2 or 1.5", s)
		}
		c.factor = f
		return c, nil
	}
	d, err := parseTime(limit)
	if err == nil && d <= 0 {
		err = errors.New("the time must be more than 0")
	}
	if err != nil {
		return c, fmt.Errorf("%q: %w", s, err)
	}
	c.limit = d
	return c, nil
}

// NeedsSteps says whether the condition needs the name of the NVTX ranges that are steps.
func (c Condition) NeedsSteps() bool { return c.what == slowSteps }

// NeedsWork says whether the condition needs CUPTI's records of GPU work.
func (c Condition) NeedsWork() bool { return c.what == longKernels }
