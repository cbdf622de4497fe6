package timeline

import (
	"fmt"
	"path"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// A Caller is a place in the program, or in one of its libraries, that makes calls.
type Caller struct {
	Module       string  // path of the file with the code
	BuildID      string  // of that file, in hexadecimal; "" if unknown
	Address      uint64  // return address, as the ELF headers of the file count addresses
	Symbol       string  // mangled name of the function around the address, "" if unknown
	SymbolOffset uint32  // bytes from the beginning of that function to the address
	ID           uint32  // a number that no other place in the log has, not 0
	Stub         *Kernel // the kernel that the function launches, nil unless it is a kernel's host stub
}

// File is the name of the file with the code, without its folder.
func (c *Caller) File() string { return path.Base(c.Module) }

// Function is the demangled name of the function around the address, "" if unknown. The parameters
// of a C++ function may run to thousands of characters, so they are "(...)", or "()" for none.
func (c *Caller) Function() string {
	name := plainName(c.Symbol, demangle.NoParams)
	switch full := plainName(c.Symbol); {
	case strings.Contains(full, name+"()"):
		return name + "()"
	case strings.Contains(full, name+"("):
		return name + "(...)"
	}
	return name
}

// Text is the caller as people see it: "libtorch_cuda.so: at::add(...)+0x45", or
// "libcublasLt.so.13+0x12345" for an unknown function.
func (c *Caller) Text() string {
	if c.Symbol == "" {
		return fmt.Sprintf("%s+%#x", c.File(), c.Address)
	}
	return fmt.Sprintf("%s: %s+%#x", c.File(), c.Function(), c.SymbolOffset)
}
