// Package cudaapi is data about CUDA's API: the functions that are traced with
// their arguments, and the names of error codes and of CUPTI's enumerations. It
// depends on nothing and contains no mechanism.
//
// The functions are those of CUDA 11 to 13. Where a function's prototype differs
// between these, only the arguments that they share are recorded.
package cudaapi

// An ID is a function's index in the table. It is the attach cookie of its probes
// and stays the same within a build; a log names functions by name.
type ID uint16

// A Library is the side of CUDA's API that a function belongs to.
type Library uint8

// The libraries: libcuda.so, and libcudart shared or linked into the program.
const (
	Driver Library = iota
	Runtime
)

func (l Library) String() string {
	if l == Runtime {
		return "runtime"
	}
	return "driver"
}

// A Set names functions that are chosen together.
type Set uint8

// The sets. Every function is in All.
const (
	All     Set = 1 << iota
	Default     // creates GPU work, moves or allocates memory, loads code, waits, or makes what these need
	Minimal     // launches
)

// A Function is a traced function.
type Function struct {
	ID       ID
	Name     string // the exported symbol, "cuMemcpyHtoD_v2_ptds"
	Library  Library
	Category string // "launch", "copy", "memory"
	Sets     Set
	GPUWork  bool // it puts work on a GPU, and is the driver's: all such work passes it
	Fallback bool // a driver function that is traced only where the process has no runtime
	Args     []Arg
	Structs  []Struct // arguments passed by value that are larger or smaller than a register, in order
	Naming   Naming   // it makes a handle for a kernel
	Range    Range    // it delimits what is to be profiled
}

// An Arg is one recorded value of a call, from an argument or from what an
// argument points to.
type Arg struct {
	Name  string
	Type  ArgType
	Index int // position of the argument in the C prototype
	From  Source
	// Offset is where the value lies in the struct, for FromField, FromValue, and
	// FromOut where the argument points to a struct.
	Offset int
}

// A Source is where a value comes from.
type Source uint8

// The sources.
const (
	FromArgument Source = iota // the argument itself
	FromField                  // a field of the struct it points to, read at entry
	FromOut                    // what it points to, read when the call has succeeded
	FromValue                  // a field of a struct that is passed by value
)

// A Struct is an argument that is a struct passed by value.
type Struct struct {
	Index int // position in the C prototype
	Bytes int
}

// A Naming says how a call names the handle that its first argument points to.
type Naming uint8

// The namings.
const (
	NamesNothing  Naming = iota
	NamesByText          // the third argument is the kernel's name
	NamesByHandle        // the second argument is another handle for the same kernel
)

// A Range is a function's part in delimiting what is to be profiled.
type Range uint8

// The ranges.
const (
	NoRange Range = iota
	RangeStart
	RangeStop
)

// An ArgType says how to show a value.
type ArgType uint8

// The types of values. Smaller ones are zero-extended to 64 bits in an event, I32
// too: its reader takes the low 32 bits as a signed number. F32 is the bits of a
// 32-bit floating-point number.
const (
	Ptr    ArgType = iota // an address, host or device
	Handle                // an opaque pointer: stream, event, function
	Size                  // bytes, or a count of type size_t
	U32
	I32
	U64
	Enum // 32 bits
	F32
)

var typeNames = [...]string{Ptr: "ptr", Handle: "handle", Size: "size", U32: "u32", I32: "i32", U64: "u64", Enum: "enum", F32: "f32"}

func (t ArgType) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "unknown"
}

// Bytes is the size of the type's values in memory.
func (t ArgType) Bytes() int {
	switch t {
	case U32, I32, Enum, F32:
		return 4
	}
	return 8
}

// ByName returns the function with the given symbol name, nil if there is none.
func ByName(name string) *Function {
	id, ok := byName[name]
	if !ok {
		return nil
	}
	return &functions[id]
}

// Functions returns the functions that are in any of the given sets, in table order.
func Functions(sets Set) []*Function {
	var found []*Function
	for i := range functions {
		if functions[i].Sets&sets != 0 {
			found = append(found, &functions[i])
		}
	}
	return found
}

// ArgSpec describes the recorded arguments as "name:type name:type", the form of
// the log's Function.Args.
func ArgSpec(f *Function) string {
	var spec []byte
	for i, a := range f.Args {
		if i > 0 {
			spec = append(spec, ' ')
		}
		spec = append(spec, a.Name...)
		spec = append(spec, ':')
		spec = append(spec, a.Type.String()...)
	}
	return string(spec)
}
