package cupti

import (
	"path/filepath"
	"strings"

	"github.com/cudatrace/cudatrace/record/cupti/privatefolder"
)

// InjectionVar is the environment variable that names the library which the CUDA driver loads
// during cuInit.
const InjectionVar = "CUDA_INJECTION64_PATH"

// NVTXVar is the environment variable that names the library which NVTX loads at its first use.
const NVTXVar = "NVTX_INJECTION64_PATH"

// Environ returns env with the variables that make the driver and NVTX load the library.
func (s *Server) Environ(env []string) []string {
	out := make([]string, 0, len(env)+2)
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if name != InjectionVar && name != NVTXVar {
			out = append(out, e)
		}
	}
	path := filepath.Join(s.dir, privatefolder.LibraryName)
	return append(out, InjectionVar+"="+path, NVTXVar+"="+path)
}

// Conflict returns the setting ("NAME=VALUE") by which another tool injects a library of its
// own, "" without one: recording through CUPTI would displace that tool. A setting by which
// NVTX loads CUPTI itself is no conflict, since a recording does the same; nor is that of 'cudatrace run --armed',
// in whose place the program is recorded.
func Conflict(env []string) string {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case value == "":
		case name == InjectionVar && privatefolder.Arms(value):
		case name == NVTXVar && strings.HasPrefix(filepath.Base(value), "libcupti.so"):
		case name == InjectionVar, name == NVTXVar:
			return e
		}
	}
	return ""
}
