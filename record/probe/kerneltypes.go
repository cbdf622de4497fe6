package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
)

// kernelStructs are those that the eBPF program reads; the members that it reads are
// those that its own type information has.
var kernelStructs = []string{
	"ns_common", "pid_namespace", "upid", "pid", "sigaction", "k_sigaction", "sighand_struct", "signal_struct", "task_struct",
}

// sessionFunction is the kernel's function that the program calls.
const sessionFunction = "bpf_session_is_return"

// relocate fits a program to the running kernel: the calls of the kernel's function get
// its number, and the result has the types that the loader needs for the rest. The loader
// could find both, but reads all of the kernel's type information for it, which takes
// most of the time of loading: here only what the program names is looked at.
func relocate(spec *ebpf.CollectionSpec) (ebpf.CollectionOptions, error) {
	var o ebpf.CollectionOptions
	raw, release, err := mapKernelTypes("/sys/kernel/btf/vmlinux")
	if err != nil {
		return o, fmt.Errorf("the kernel does not describe its types: %w", err)
	}
	defer release()
	k, err := parseKernel(raw)
	if err != nil {
		return o, fmt.Errorf("the kernel's description of its types: %w", err)
	}
	o.Programs.KernelTypes, err = k.reduced(spec.Types)
	if k.session != 0 {
		numberCalls(spec, k.session)
	}
	return o, err
}

// mapKernelTypes maps the file, or reads it where the kernel is too old to map it.
func mapKernelTypes(path string) (raw []byte, release func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	raw, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err == nil {
		return raw, func() error { return unix.Munmap(raw) }, nil
	}
	raw, err = io.ReadAll(f)
	return raw, func() error { return nil }, err
}

// numberCalls gives the calls of sessionFunction its number in the kernel. Where there
// is none the loader says so.
func numberCalls(spec *ebpf.CollectionSpec, number uint32) {
	if p := spec.Programs[bpf.ProbesProgCallSession]; p != nil {
		for i, ins := range p.Instructions {
			if ins.IsKfuncCall() {
				p.Instructions[i] = asm.Instruction{OpCode: ins.OpCode, Src: asm.PseudoKfuncCall, Constant: int64(number)}.WithSource(ins.Source())
			}
		}
	}
}

// A kernelBTF is the kernel's type information, not decoded (linux/btf.h). A type is
// 12 bytes: the name's place u32, info u32 (count in the low 16 bits, kind in bits 24 to
// 28, a flag in bit 31), and size or another type's number u32; then what its kind adds.
type kernelBTF struct {
	types, texts []byte
	at           []uint32 // the place of each type by its number; that of number 0 is unused
	structs      map[string]uint32
	session      uint32 // the number of sessionFunction, 0 without

	program *btf.Spec
	done    map[string]*btf.Struct
}

// Kinds of types that matter here.
const (
	kindInt, kindPointer, kindArray, kindStruct, kindUnion = 1, 2, 3, 4, 5
	kindTypedef, kindVolatile, kindConst, kindRestrict     = 8, 9, 10, 11
	kindFunction, kindTypeTag                              = 12, 18
)

// btfExtra is what each kind adds to a type: bytes, and bytes for each of its count.
var btfExtra = [...]struct{ fixed, each int }{
	kindInt: {4, 0}, kindArray: {12, 0}, kindStruct: {0, 12}, kindUnion: {0, 12}, 6: {0, 8}, // enum
	13: {0, 8}, 14: {4, 0}, 15: {0, 12}, 17: {4, 0}, kindTypeTag: {0, 0}, 19: {0, 12}, // prototype, variable, section, tag, enum64
}

var errBadBTF = errors.New("it is malformed")

// parseKernel finds the types by name that the program needs.
func parseKernel(raw []byte) (*kernelBTF, error) {
	le := binary.NativeEndian
	if len(raw) < 24 || le.Uint16(raw) != 0xeb9f {
		return nil, errBadBTF
	}
	body := raw[min(uint64(le.Uint32(raw[4:])), uint64(len(raw))):]
	part := func(at int) []byte {
		from, size := uint64(le.Uint32(raw[at:])), uint64(le.Uint32(raw[at+4:]))
		return body[min(from, uint64(len(body))):min(from+size, uint64(len(body)))]
	}
	k := &kernelBTF{types: part(8), texts: part(16), structs: map[string]uint32{}, done: map[string]*btf.Struct{}}
	k.at = append(make([]uint32, 0, len(k.types)/16), 0)
	return k, k.index()
}

// index notes where each type is, and which are those that the program needs.
func (k *kernelBTF) index() error {
	for at := 0; at < len(k.types); {
		if at+12 > len(k.types) {
			return errBadBTF
		}
		number := uint32(len(k.at))
		k.at = append(k.at, uint32(at))
		name, kind, count, _ := k.head(number)
		if kind >= len(btfExtra) {
			return fmt.Errorf("type %d is of the unknown kind %d", number, kind)
		}
		switch kind {
		case kindStruct:
			k.noteStruct(name, number)
		case kindFunction:
			if k.session == 0 && k.isText(name, sessionFunction) {
				k.session = number
			}
		}
		at += 12 + btfExtra[kind].fixed + count*btfExtra[kind].each
	}
	return nil
}

func (k *kernelBTF) noteStruct(name, number uint32) {
	for _, wanted := range kernelStructs {
		if k.isText(name, wanted) && k.structs[wanted] == 0 {
			k.structs[wanted] = number
		}
	}
}

// isText says whether a text is at a place, without looking for its end.
func (k *kernelBTF) isText(at uint32, text string) bool {
	end := int(at) + len(text)
	return end < len(k.texts) && k.texts[end] == 0 && string(k.texts[at:end]) == text
}

func (k *kernelBTF) head(number uint32) (name uint32, kind, count int, size uint32) {
	b := k.types[k.at[number]:]
	info := binary.NativeEndian.Uint32(b[4:])
	return binary.NativeEndian.Uint32(b), int(info >> 24 & 0x1f), int(info & 0xffff), binary.NativeEndian.Uint32(b[8:])
}

// extra is what follows a type's head, at least n bytes.
func (k *kernelBTF) extra(number uint32, n int) ([]byte, error) {
	from := int(k.at[number]) + 12
	if from+n > len(k.types) {
		return nil, errBadBTF
	}
	return k.types[from:], nil
}

func (k *kernelBTF) text(at uint32) string {
	if int(at) >= len(k.texts) {
		return ""
	}
	text, _, _ := bytes.Cut(k.texts[at:], []byte{0})
	return string(text)
}

// reduced is the kernel's types with nothing but the structs and members that the
// program has in its own.
func (k *kernelBTF) reduced(program *btf.Spec) (*btf.Spec, error) {
	k.program = program
	var all []btf.Type
	for _, name := range kernelStructs {
		if number := k.structs[name]; number != 0 {
			s, err := k.structure(name, number, 0)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	b, err := btf.NewBuilder(all, nil)
	if err != nil {
		return nil, err
	}
	return b.Spec()
}

// maxTypeDepth is more than the program's structs lie inside each other.
const maxTypeDepth = 16

// structure gives a struct, with the members that the program's own of that name has.
func (k *kernelBTF) structure(name string, number uint32, depth int) (*btf.Struct, error) {
	if s := k.done[name]; s != nil {
		return s, nil
	}
	_, _, _, size := k.head(number)
	s := &btf.Struct{Name: name, Size: size}
	var own *btf.Struct
	if err := k.program.TypeByName(name, &own); err != nil {
		return s, nil // the program does not read it
	}
	k.done[name] = s
	wanted := func(member string) bool {
		return slices.ContainsFunc(own.Members, func(m btf.Member) bool { return m.Name == member })
	}
	var err error
	s.Members, err = k.members(number, 0, wanted, depth)
	return s, err
}

// members lists the wanted members of a struct, and those of structs without a name in
// it as if they were its own, as they are in C.
func (k *kernelBTF) members(number, base uint32, wanted func(string) bool, depth int) ([]btf.Member, error) {
	_, _, count, _ := k.head(number)
	b, err := k.extra(number, 12*count)
	if err != nil || depth > maxTypeDepth {
		return nil, errors.Join(err, errBadBTF)
	}
	var found []btf.Member
	for ; count > 0; count, b = count-1, b[12:] {
		le := binary.NativeEndian
		name, of, offset := k.text(le.Uint32(b)), le.Uint32(b[4:]), base+le.Uint32(b[8:])&0xffffff
		if name == "" {
			inner, err := k.unnamed(of, offset, wanted, depth+1)
			if err != nil {
				return nil, err
			}
			found = append(found, inner...)
		} else if wanted(name) {
			t, err := k.convert(of, depth+1)
			if err != nil {
				return nil, err
			}
			found = append(found, btf.Member{Name: name, Type: t, Offset: btf.Bits(offset)})
		}
	}
	return found, nil
}

// unnamed lists the wanted members of a member without a name.
func (k *kernelBTF) unnamed(number, offset uint32, wanted func(string) bool, depth int) ([]btf.Member, error) {
	if number, err := k.plain(number); err != nil {
		return nil, err
	} else if _, kind, _, _ := k.head(number); kind == kindStruct || kind == kindUnion {
		return k.members(number, offset, wanted, depth)
	}
	return nil, nil // the padding between bit fields
}

// plain follows typedefs and qualifiers.
func (k *kernelBTF) plain(number uint32) (uint32, error) {
	for range maxTypeDepth {
		if int(number) >= len(k.at) || number == 0 {
			return 0, errBadBTF
		}
		switch _, kind, _, to := k.head(number); kind {
		case kindTypedef, kindVolatile, kindConst, kindRestrict, kindTypeTag:
			number = to
		default:
			return number, nil
		}
	}
	return 0, errBadBTF
}

// convert gives a member's type, as far as the loader looks at it: the kind, and what
// is inside of structs.
func (k *kernelBTF) convert(number uint32, depth int) (btf.Type, error) {
	number, err := k.plain(number)
	if err != nil || depth > maxTypeDepth {
		return nil, errors.Join(err, errBadBTF)
	}
	name, kind, _, size := k.head(number)
	switch kind {
	case kindPointer:
		return &btf.Pointer{Target: (*btf.Void)(nil)}, nil
	case kindArray:
		return k.array(number, depth)
	case kindStruct:
		if text := k.text(name); text != "" {
			return k.structure(text, number, depth)
		}
		members, err := k.members(number, 0, func(string) bool { return true }, depth)
		return &btf.Struct{Size: size, Members: members}, err
	}
	return &btf.Int{Name: "int", Size: min(size, 8)}, nil
}

// array reads the type of the elements and, two words on, their number.
func (k *kernelBTF) array(number uint32, depth int) (btf.Type, error) {
	b, err := k.extra(number, 12)
	if err != nil {
		return nil, err
	}
	element, err := k.convert(binary.NativeEndian.Uint32(b), depth+1)
	return &btf.Array{Index: &btf.Int{Name: "int", Size: 4}, Type: element, Nelems: binary.NativeEndian.Uint32(b[8:])}, err
}
