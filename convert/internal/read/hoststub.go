package read

import (
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// stubPrefix begins the name of a host stub. The mangled name of its kernel follows.
const stubPrefix = "__device_stub_"

// hostStub returns the kernel that a function launches if it is a host stub, else nil. nvcc makes
// such a function for each kernel: __device_stub__Z5smallPf launches _Z5smallPf and nothing else.
// In a symbol table its name is mangled once more, behind its length: _Z24__device_stub__Z5smallPfPf.
func hostStub(symbol string) *timeline.Kernel {
	rest, ok := strings.CutPrefix(symbol, "_Z")
	if !ok {
		return nil
	}
	rest = strings.TrimPrefix(rest, "L") // a function that only its source file sees
	at := strings.Index(rest, stubPrefix)
	if at < 0 {
		return nil
	}
	n, err := strconv.ParseUint(rest[:at], 10, 32)
	if err != nil || n > uint64(len(rest)-at) {
		return nil
	}
	kernel, ok := strings.CutPrefix(rest[at:at+int(n)], stubPrefix)
	if !ok || !strings.HasPrefix(kernel, "_Z") {
		return nil // the names of functions with C linkage are not mangled
	}
	return &timeline.Kernel{Name: kernel}
}
