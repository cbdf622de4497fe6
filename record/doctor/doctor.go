// Package doctor finds out what a recording on this machine, by this user, would get. Input: nothing, a
// program, or a running process. Output: a report of checks, each with what was found and the remedy.
//
// A check does what a recording does, where that harms nobody: it loads the eBPF programs and probes a
// function of a child process, makes the private folder, asks the dynamic linker which libraries a
// program would get. It starts no program of the user's and loads no library of CUDA's.
//
//	probes.go     the kernel and the rights for probes
//	driver.go     the kernel module of the driver and its GPUs
//	metrics.go    who may read the GPUs' counters
//	program.go    the program and the libraries that it would load
//	libraries.go  libcuda, the runtime, libcupti
//	process.go    a process that runs already
//	surroundings.go  other tools, the private folder, disk space
package doctor

import (
	"fmt"
	"strings"
)

// A Status says what a check means for a recording.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Note    Status = "note"    // worth knowing; a recording may get everything all the same
	Less    Status = "less"    // a recording gets less
	Nothing Status = "nothing" // a recording gets nothing
)

// A Check is one thing that was looked at.
type Check struct {
	Name   string `json:"check"`
	Status Status `json:"status"` // `ok`; `note`, worth knowing; `less` or `nothing`, which a recording then gets
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // absent where there is nothing to do
}

// An Outcome says how much a recording would get.
type Outcome string

// The outcomes.
const (
	Everything Outcome = "everything"
	Part       Outcome = "part"
	None       Outcome = "nothing"
)

// Where calls would come from.
const (
	FromProbes = "probes"
	FromCUPTI  = "cupti"
	FromNone   = "none"
)

// A Report says what a recording would get, and why.
type Report struct {
	Version int     `json:"version"`
	Outcome Outcome `json:"outcome"`  // `everything`, `part` or `nothing`
	Text    string  `json:"text"`     // the outcome in words
	Calls   string  `json:"calls"`    // `probes`: with arguments and callers; `cupti`: without arguments; or `none`
	GPUWork bool    `json:"gpu_work"` // kernels, copies and sets
	Checks  []Check `json:"checks"`
}

// Options say for what a report is made. Program and PID exclude each other; without both the report is
// about this machine.
type Options struct {
	Program string   // as a person names it; it may be a script
	Env     []string // of the program
	PID     int      // a running process
	Folder  string   // where the log would be written
}

// An examination makes a report.
type examination struct {
	opts   Options
	root   string // of the file system in which the driver is looked for; tests have one of their own
	checks []Check
	probed bool   // calls can be probed
	driver string // version of the driver, "580.65.06"; "" if it is not known
}

// Examine makes a report. An error says that the program cannot be started, or that the process cannot
// be read.
func Examine(o Options) (*Report, error) {
	x := &examination{opts: o}
	target, err := x.look()
	if err != nil {
		return nil, err
	}
	x.lookAtKernel()
	x.lookAtProbes()
	x.lookAtModule()
	x.lookAtGPUs()
	x.lookAtMetrics(asRoot())
	if o.PID != 0 {
		x.lookAtProcess(target)
	} else {
		x.lookAtLibraries(target)
		x.lookAtInjection()
		x.lookAtFolder()
	}
	x.lookAtDisk()
	return x.report(), nil
}

// look finds out what the report is about.
func (x *examination) look() (*target, error) {
	switch {
	case x.opts.PID != 0:
		return lookAtPID(x.opts.PID)
	case x.opts.Program != "":
		return x.lookAtProgram()
	}
	return machine(x.opts.Env), nil
}

func (x *examination) addCheck(c Check) { x.checks = append(x.checks, c) }

// has reports whether a check had a status.
func (x *examination) has(name string, s Status) bool {
	for _, c := range x.checks {
		if c.Name == name && c.Status == s {
			return true
		}
	}
	return false
}

// workChecks are the checks without which there is no GPU work, and no calls from CUPTI.
var workChecks = []string{checkCUPTI, checkInjection, checkFolder, checkProcess}

// report sums the checks up.
func (x *examination) report() *Report {
	r := &Report{Version: 1, Checks: x.checks, Calls: FromNone, Outcome: None}
	for _, c := range x.checks {
		if c.Status == Nothing {
			r.Text = "a recording gets nothing: " + c.Found
			return r
		}
	}
	r.GPUWork = true
	for _, name := range workChecks {
		r.GPUWork = r.GPUWork && !x.has(name, Less)
	}
	switch {
	case x.probed:
		r.Calls = FromProbes
	case r.GPUWork && x.opts.PID == 0:
		r.Calls = FromCUPTI
	}
	r.Outcome, r.Text = r.outcome()
	return r
}

// outcome says how much a recording gets, and in words.
func (r *Report) outcome() (Outcome, string) {
	var gets, lacks []string
	switch r.Calls {
	case FromProbes:
		gets = append(gets, "calls with arguments and callers")
	case FromCUPTI:
		gets, lacks = append(gets, "calls with callers, from CUPTI"), append(lacks, "arguments of calls")
	default:
		lacks = append(lacks, "calls")
	}
	if r.GPUWork {
		gets = append(gets, "GPU work")
	} else {
		lacks = append(lacks, "GPU work")
	}
	switch {
	case len(gets) == 0:
		return None, "a recording gets nothing: neither calls nor GPU work"
	case len(lacks) > 0:
		return Part, fmt.Sprintf("a recording gets part of it: %s; not %s", strings.Join(gets, ", "),
			strings.Join(lacks, ", "))
	}
	return Everything, "a recording gets everything: " + strings.Join(gets, ", ")
}
