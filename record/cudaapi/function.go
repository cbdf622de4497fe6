// Package cudaapi is data about CUDA's API: the functions that can be recorded, with their
// arguments, and the names of error codes and of CUPTI's enumerations. Names and numbers go in;
// functions and names come out. It depends on nothing.
//
// The functions are those of CUDA 11 to 13. Where these releases differ in a function's
// prototype, only the arguments that they share are recorded.
package cudaapi

// An ID is a function's index in the table and the attach cookie of its probes. It stays the
// same within a build; a log names functions by name.
type ID uint16

// A Library is one of the two libraries of CUDA's API.
type Library uint8

// The libraries: libcuda.so, and libcudart, shared or linked into the program.
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

// A Set is a set of functions that are chosen together.
type Set uint8

// The sets. Every function is in All.
const (
	All     Set = 1 << iota
	Default     // functions that create GPU work, move or allocate memory, load code, wait, or make the objects for these
	Minimal     // functions that launch
)

// A Function is a function that can be recorded.
type Function struct {
	ID       ID
	Name     string // the exported symbol, "cuMemcpyHtoD_v2_ptds"
	Library  Library
	Category string // "launch", "copy", "memory"
	Sets     Set
	GPUWork  bool // a driver function that puts work on a GPU: all such work passes the driver
	Fallback bool // a driver function that is recorded only in a process without a runtime
	Beside   bool // a driver function that is recorded beside the function of the runtime that it carries out
	Within   bool // a function of the runtime in whose place the driver's function within it is recorded
	Args     []Arg
	Structs  []Struct // arguments passed by value that are larger or smaller than a register, in order
	Naming   Naming   // how it names a kernel's handle
	Range    Range    // whether it starts or stops a profiler
}

// An Arg is one recorded value of a call: an argument, or a value that an argument points to.
type Arg struct {
	Name  string
	Type  ArgType
	Index int // position of the argument in the C prototype
	From  Source
	// Offset is the place of the value in the struct: for FromField, FromValue, and for FromOut
	// where the argument points to a struct.
	Offset int
}

// A Source says where a value comes from.
type Source uint8

// The sources.
const (
	FromArgument Source = iota // the argument itself
	FromField                  // a field of the struct that the argument points to, read at entry
	FromOut                    // the value that the argument points to, read after a successful call
	FromValue                  // a field of a struct that is passed by value
)

// A Struct is a struct that is passed by value.
type Struct struct {
	Index int // position in the C prototype
	Bytes int
}

// A Naming says how a call names the handle that its first argument receives.
type Naming uint8

// The namings.
const (
	NamesNothing  Naming = iota
	NamesByText          // the third argument is the kernel's name
	NamesByHandle        // the second argument is another handle for the same kernel
)

// A Range says whether a function starts or stops a profiler.
type Range uint8

// The ranges.
const (
	NoRange Range = iota
	RangeStart
	RangeStop
)

// An ArgType says how a value is shown.
type ArgType uint8

// The types of values. A smaller value is zero-extended to 64 bits in an event, also an I32:
// read its low 32 bits as a signed number. An F32 is the bits of a 32-bit floating-point
// number.
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

var typeNames = [...]string{
	Ptr: "ptr", Handle: "handle", Size: "size", U32: "u32", I32: "i32", U64: "u64", Enum: "enum", F32: "f32",
}

func (t ArgType) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "unknown"
}

// Bytes is the size in memory of a value of the type.
func (t ArgType) Bytes() int {
	switch t {
	case U32, I32, Enum, F32:
		return 4
	}
	return 8
}

// ByID returns the function with an ID, nil if there is none.
func ByID(id ID) *Function {
	if int(id) >= len(functions) {
		return nil
	}
	return &functions[id]
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

// ArgSpec lists the recorded arguments as "name:type name:type", the form of the log's
// Function.Args.
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
