package callers

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"path/filepath"
	"strings"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/elfsym"
)

// A kind says what code of CUDA a file holds.
type kind uint8

const (
	unexamined    kind = iota
	driverLibrary      // libcuda, libcupti
	runtimeShared      // libcudart: all its code is the runtime
	plain              // no code of CUDA
	// The others have a runtime linked into them, beside code of their own.
	runtimeNamed   // symbols tell the runtime's functions from the others
	runtimePartial // symbols name the exported functions of the runtime, not the internal ones
	runtimeCoded   // the code of the runtime's functions tells their names
	runtimeHidden  // nothing tells their names
)

// kindOf tells the kinds apart that show in a file's name.
func kindOf(path, soname string) kind {
	for _, name := range []string{filepath.Base(path), soname} {
		switch {
		case strings.HasPrefix(name, "libcuda.so"), strings.HasPrefix(name, "libcupti.so"):
			return driverLibrary
		case strings.HasPrefix(name, "libcudart.so"), strings.HasPrefix(name, "libcudart-"):
			return runtimeShared
		}
	}
	return unexamined
}

// A role says what the function around a return address is.
type role uint8

const (
	unknown  role = iota
	program       // no function of CUDA
	internal      // a function of the runtime that programs cannot call
	exported      // one that they can
	doubtful      // one that they can, with a name that is not certain
)

// judge finds the role of the function around a return address.
func (m *module) judge(address uint64) *frame {
	f := m.frame(address)
	if f.judged {
		return f
	}
	f.judged = true
	if m.kind == unexamined {
		m.kind = m.examine()
	}
	f.role, f.name = m.role(f)
	return f
}

func (m *module) role(f *frame) (role, string) {
	if m.kind == plain {
		return program, ""
	}
	if name, found := m.exportedName(f); found {
		if name == "" {
			return doubtful, ""
		}
		return exported, name
	}
	switch {
	case m.kind == runtimeShared:
		return internal, ""
	case m.kind == runtimeNamed && len(f.symbols) > 0:
		if hasInternalName(f.symbols[0].Name) {
			return internal, ""
		}
		return program, ""
	case m.kind == runtimeCoded && m.farFromRuntime(f):
		return program, ""
	}
	return unknown, ""
}

// runtimeReach is more than the code of a runtime takes, several times: 0.6 MiB in CUDA 13. A linker
// puts the code of a static library in one place.
const runtimeReach = 4 << 20

// farFromRuntime reports whether a function lies too far from cudaLaunchKernel to be the runtime's.
func (m *module) farFromRuntime(f *frame) bool {
	return f.found && (f.To+runtimeReach < m.launch || m.launch+runtimeReach < f.From)
}

// internalPrefix begins the names of internal functions in NVIDIA's static runtime, beside
// those of __cudart and a number.
const internalPrefix = "libcudart_static_"

func hasInternalName(name string) bool {
	number, cudart := strings.CutPrefix(name, "__cudart")
	return strings.HasPrefix(name, internalPrefix) || cudart && number != "" && number[0] >= '0' && number[0] <= '9'
}

// exportedName is the name of the runtime's exported function around a frame. found is false for other
// functions; the name is empty if it is not certain.
func (m *module) exportedName(f *frame) (name string, found bool) {
	if len(f.symbols) == 0 {
		if m.kind != runtimeCoded {
			return "", false
		}
		id, ok := m.signature(f)
		return cudaapi.RuntimeCallback(id), ok
	}
	if f.found && !f.Contains(f.symbols[0].From) {
		return "", false
	}
	for _, s := range f.symbols {
		if s.Name == name || !cudaapi.IsRuntimeName(s.Name) && !(m.kind == runtimeShared && s.Exported &&
			beginsLikeRuntime(s.Name)) {
			continue
		}
		if found { // several names: the code knows which
			id, _ := m.signature(f)
			return cudaapi.RuntimeCallback(id), true
		}
		name, found = s.Name, true
	}
	return name, found
}

// beginsLikeRuntime reports whether a name looks like one of the runtime's: a release may have new ones.
func beginsLikeRuntime(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, "__"), "cuda")
}

// examine finds out whether a file has a runtime linked into it.
func (m *module) examine() kind {
	if m.namesRuntime() {
		switch {
		case m.elf.NamesBegin(internalPrefix):
			return runtimeNamed
		case m.forwards():
			return plain
		case m.keepsFrames():
			return runtimePartial
		}
		return runtimeHidden
	}
	finds, err1 := m.elf.Imports("dlsym", "dlvsym") // a runtime finds the driver with them
	shares, err2 := m.elf.Imports("cudaMalloc", "cudaLaunchKernel", "__cudaRegisterFatBinary")
	switch {
	case err1 != nil || err2 != nil:
		return runtimeHidden
	case !finds || shares:
		return plain
	case m.showsSignature():
		return runtimeCoded
	case m.mentions("cudaErrorInvalidResourceHandle\x00"):
		return runtimeHidden
	}
	return plain
}

// usual reports whether a name is one of those that every runtime has.
func usual(name string) bool { return name == "cudaMalloc" || name == "cudaLaunchKernel" }

// namesRuntime reports whether the symbols name functions of the runtime.
func (m *module) namesRuntime() bool {
	found, err := elfsym.Find(m.file, usual)
	return err == nil && len(found) > 0
}

// keepsFrames reports whether exported functions of the runtime use the frame pointer as such.
func (m *module) keepsFrames() bool {
	const prologue = 16 // bytes
	found, err := elfsym.Find(m.file, usual)
	for _, offset := range found {
		at, _ := m.elf.Address(offset)
		if f, ok := m.elf.Frame(at + prologue); !ok || !f.Linked {
			return false
		}
	}
	return err == nil
}

// forwards reports whether the functions named like those of the runtime only jump to a shared runtime, which is
// opened when the first one is called. XLA, and so JAX and TensorFlow, has such functions.
func (m *module) forwards() bool {
	const most = 128 // bytes of code of such a function
	found, err := elfsym.Find(m.file, usual)
	for _, offset := range found {
		at, _ := m.elf.Address(offset)
		code := m.elf.Bytes(at, most)
		if f, ok := m.elf.Frame(at); ok && f.To-at < uint64(len(code)) {
			code = code[:f.To-at]
		}
		if !jumpsAway(code) {
			return false
		}
	}
	return err == nil && len(found) > 0
}

// mentions reports whether the constants of the file hold a text.
func (m *module) mentions(text string) bool {
	for _, b := range m.elf.Constants(len(text)) {
		if bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}

// launchCallback is the callback id of cudaLaunchKernel.
const launchCallback = 211

// showsSignature reports whether the file holds the code of cudaLaunchKernel in a known form, with a
// frame pointer.
func (m *module) showsSignature() bool {
	const overlap = 16
	load := loadID(launchCallback)
	for address, b := range m.elf.Code(overlap) {
		for at := 0; ; at++ {
			next := bytes.Index(b[at:], load)
			if next < 0 {
				break
			}
			at += next
			f := frame{}
			f.Frame, f.found = m.elf.Frame(address + uint64(at))
			if id, ok := m.signature(&f); ok && id == launchCallback && f.Linked {
				m.launch = f.From
				return true
			}
		}
	}
	return false
}

func loadID(id uint32) []byte { return binary.LittleEndian.AppendUint32([]byte{0xbf}, id) } // mov $id, %edi

const (
	maxCallback     = 4096     // callback ids are below
	maxFunctionCode = 64 << 10 // bytes of code of an exported function
	callDistance    = 24       // bytes from loading an id to the call
)

// signature recognises an exported function of NVIDIA's runtime by its code, and returns its
// callback id. Each of them tests whether somebody subscribed to its calls,
//
//	mov 4*id(%rax), %edx
//	test %edx, %edx
//
// and if so announces the call, twice, with the id as the first argument:
//
//	mov $id, %edi
//	call *8(%rax)
//
// All must agree, and no other id may do.
func (m *module) signature(f *frame) (id uint32, ok bool) {
	if host.Machine() != elf.EM_X86_64 || !f.found || f.To-f.From > maxFunctionCode {
		return 0, false
	}
	code := m.elf.Bytes(f.From, int(f.To-f.From))
	for i := 0; i+5 < len(code); i++ {
		if code[i] != 0xbf {
			continue
		}
		next := binary.LittleEndian.Uint32(code[i+1:])
		if next == 0 || next >= maxCallback || next == id || !announces(code[i+5:]) || !tests(code, 4*next) {
			continue
		}
		if id != 0 {
			return 0, false
		}
		id = next
	}
	return id, id != 0
}

// announces reports whether code soon comes to "call *8(register)".
func announces(code []byte) bool {
	for i := range min(len(code), callDistance) {
		for n := 3; n <= 5 && i+n <= len(code); n++ {
			if b := code[i : i+n]; b[n-1] == 8 && isIndirectCall(b) {
				return true
			}
		}
	}
	return false
}

// tests reports whether code loads the 32 bits at a distance from a register, or compares them.
func tests(code []byte, distance uint32) bool {
	wide := binary.LittleEndian.AppendUint32(nil, distance)
	for i := 0; i+3 <= len(code); i++ {
		if code[i] != 0x8b && (code[i] != 0x83 || code[i+1]>>3&7 != 7) { // mov, cmp
			continue
		}
		mode, base, rest := code[i+1]>>6, code[i+1]&7, code[i+2:]
		if base == 4 {
			rest = rest[1:]
		}
		if mode == 2 && bytes.HasPrefix(rest, wide) || mode == 1 && distance < 0x80 && len(rest) > 0 &&
			rest[0] == byte(distance) {
			return true
		}
	}
	return false
}
