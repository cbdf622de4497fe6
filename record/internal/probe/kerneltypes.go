package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// kernelStructs are the kernel's structs that the eBPF program reads. The program's own type
// information has the members that it reads.
var kernelStructs = []string{
	"ns_common", "pid_namespace", "upid", "pid", "sigaction", "k_sigaction", "sighand_struct", "signal_struct",
	"return_instance", "uprobe_task", "task_struct",
}

// openKernelTypes reads the type information of the running kernel until release. The library can do that itself, but it
// took most of the loading time.
func openKernelTypes() (*rawTypes, error) {
	raw, release, err := mapFile("/sys/kernel/btf/vmlinux")
	if err != nil {
		return nil, fmt.Errorf("the kernel does not describe its types: %w", err)
	}
	k, err := parseKernelTypes(raw)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the kernel's description of its types: %w", err), release())
	}
	k.release = release
	return k, nil
}

// mapFile maps a file, or reads it if the kernel is too old to map it.
func mapFile(path string) (raw []byte, release func() error, err error) {
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

// rawTypes is the kernel's type information (linux/btf.h) before it is decoded. A type takes 12
// bytes: the place of its name u32; info u32 (a count in the low 16 bits, the kind in bits 24
// to 28, a flag in bit 31); its size or the number of another type u32. Behind these come bytes
// that depend on the kind.
type rawTypes struct {
	types, texts []byte
	at           []uint32          // the place of each type by its number; number 0 is unused
	structs      map[string]uint32 // numbers of the structs that the program reads
	release      func() error
}

// The kinds of type that the program needs.
const (
	kindInt, kindPointer, kindArray, kindStruct, kindUnion = 1, 2, 3, 4, 5
	kindTypedef, kindVolatile, kindConst, kindRestrict     = 8, 9, 10, 11
	kindTypeTag                                            = 18
)

// btfExtra is the number of bytes behind a type of each kind: a fixed number, and a number for
// each of its count.
var btfExtra = [...]struct{ fixed, each int }{
	kindInt: {4, 0}, kindArray: {12, 0}, kindStruct: {0, 12}, kindUnion: {0, 12}, 6: {0, 8}, // enum
	// prototype, variable, section, tag, enum64
	13: {0, 8}, 14: {4, 0}, 15: {0, 12}, 17: {4, 0}, kindTypeTag: {0, 0}, 19: {0, 12},
}

var errBadBTF = errors.New("it is malformed")

// parseKernelTypes reads the headers, and finds by name the types that the program needs.
func parseKernelTypes(raw []byte) (*rawTypes, error) {
	le := binary.NativeEndian
	if len(raw) < 24 || le.Uint16(raw) != 0xeb9f {
		return nil, errBadBTF
	}
	body := raw[min(uint64(le.Uint32(raw[4:])), uint64(len(raw))):]
	part := func(at int) []byte {
		from, size := uint64(le.Uint32(raw[at:])), uint64(le.Uint32(raw[at+4:]))
		return body[min(from, uint64(len(body))):min(from+size, uint64(len(body)))]
	}
	k := &rawTypes{types: part(8), texts: part(16), structs: map[string]uint32{}}
	k.at = append(make([]uint32, 0, len(k.types)/16), 0)
	return k, k.index()
}

// index notes the place of each type, and the numbers of the types that the program needs.
func (k *rawTypes) index() error {
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
		if kind == kindStruct {
			k.noteStruct(name, number)
		}
		at += 12 + btfExtra[kind].fixed + count*btfExtra[kind].each
	}
	return nil
}

func (k *rawTypes) noteStruct(name, number uint32) {
	for _, wanted := range kernelStructs {
		if k.isText(name, wanted) && k.structs[wanted] == 0 {
			k.structs[wanted] = number
		}
	}
}

// isText reports whether a text is at a place of the string section.
func (k *rawTypes) isText(at uint32, text string) bool {
	end := int(at) + len(text)
	return end < len(k.texts) && k.texts[end] == 0 && string(k.texts[at:end]) == text
}

func (k *rawTypes) head(number uint32) (name uint32, kind, count int, size uint32) {
	b := k.types[k.at[number]:]
	info := binary.NativeEndian.Uint32(b[4:])
	return binary.NativeEndian.Uint32(b), int(info >> 24 & 0x1f), int(info & 0xffff), binary.NativeEndian.Uint32(b[8:])
}

// extra is the bytes behind a type's first 12. It returns an error if there are fewer than n.
func (k *rawTypes) extra(number uint32, n int) ([]byte, error) {
	from := int(k.at[number]) + 12
	if from+n > len(k.types) {
		return nil, errBadBTF
	}
	return k.types[from:], nil
}

func (k *rawTypes) text(at uint32) string {
	if int(at) >= len(k.texts) {
		return ""
	}
	text, _, _ := bytes.Cut(k.texts[at:], []byte{0})
	return string(text)
}

// reduce makes a description of only those structs and members that the program's own
// description has, too.
func (k *rawTypes) reduce(program *btf.Spec) (*btf.Spec, error) {
	r := &reducer{rawTypes: k, program: program, done: map[string]*btf.Struct{}}
	var all []btf.Type
	for _, name := range kernelStructs {
		if number := k.structs[name]; number != 0 {
			s, err := r.structure(name, number, 0)
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

// A reducer decodes the kernel's structs, as far as the program names them.
type reducer struct {
	*rawTypes
	program *btf.Spec
	done    map[string]*btf.Struct
}

// maxTypeDepth is the most types that may lie inside one another. The program's own types are
// less deep.
const maxTypeDepth = 16

// structure decodes a struct: those of its members that the program's struct of the same name
// has.
func (r *reducer) structure(name string, number uint32, depth int) (*btf.Struct, error) {
	if s := r.done[name]; s != nil {
		return s, nil
	}
	_, _, _, size := r.head(number)
	s := &btf.Struct{Name: name, Size: size}
	var own *btf.Struct
	if err := r.program.TypeByName(name, &own); err != nil {
		return s, nil // the program does not read it
	}
	r.done[name] = s
	wanted := func(member string) bool {
		return slices.ContainsFunc(own.Members, func(m btf.Member) bool { return m.Name == member })
	}
	var err error
	s.Members, err = r.members(number, 0, wanted, depth)
	return s, err
}

// members lists the wanted members of a struct. The members of an unnamed struct inside it
// count as its own, as in C.
func (r *reducer) members(number, base uint32, wanted func(string) bool, depth int) ([]btf.Member, error) {
	_, _, count, _ := r.head(number)
	b, err := r.extra(number, 12*count)
	if err != nil || depth > maxTypeDepth {
		return nil, errors.Join(err, errBadBTF)
	}
	var found []btf.Member
	for ; count > 0; count, b = count-1, b[12:] {
		le := binary.NativeEndian
		name, of, offset := r.text(le.Uint32(b)), le.Uint32(b[4:]), base+le.Uint32(b[8:])&0xffffff
		if name == "" {
			inner, err := r.unnamed(of, offset, wanted, depth+1)
			if err != nil {
				return nil, err
			}
			found = append(found, inner...)
		} else if wanted(name) {
			t, err := r.convert(of, depth+1)
			if err != nil {
				return nil, err
			}
			found = append(found, btf.Member{Name: name, Type: t, Offset: btf.Bits(offset)})
		}
	}
	return found, nil
}

// unnamed lists the wanted members of an unnamed member.
func (r *reducer) unnamed(number, offset uint32, wanted func(string) bool, depth int) ([]btf.Member, error) {
	if number, err := r.resolve(number); err != nil {
		return nil, err
	} else if _, kind, _, _ := r.head(number); kind == kindStruct || kind == kindUnion {
		return r.members(number, offset, wanted, depth)
	}
	return nil, nil // padding between bit fields
}

// resolve follows typedefs and qualifiers to the type behind them.
func (r *reducer) resolve(number uint32) (uint32, error) {
	for range maxTypeDepth {
		if int(number) >= len(r.at) || number == 0 {
			return 0, errBadBTF
		}
		switch _, kind, _, to := r.head(number); kind {
		case kindTypedef, kindVolatile, kindConst, kindRestrict, kindTypeTag:
			number = to
		default:
			return number, nil
		}
	}
	return 0, errBadBTF
}

// convert decodes as much of a member's type as the loader uses: its kind, and the members of
// structs.
func (r *reducer) convert(number uint32, depth int) (btf.Type, error) {
	number, err := r.resolve(number)
	if err != nil || depth > maxTypeDepth {
		return nil, errors.Join(err, errBadBTF)
	}
	name, kind, _, size := r.head(number)
	switch kind {
	case kindPointer:
		return &btf.Pointer{Target: (*btf.Void)(nil)}, nil
	case kindArray:
		return r.array(number, depth)
	case kindStruct:
		if text := r.text(name); text != "" {
			return r.structure(text, number, depth)
		}
		members, err := r.members(number, 0, func(string) bool { return true }, depth)
		return &btf.Struct{Size: size, Members: members}, err
	}
	return &btf.Int{Name: "int", Size: min(size, 8)}, nil
}

// array reads the type of the elements, and two words further on their number.
func (r *reducer) array(number uint32, depth int) (btf.Type, error) {
	b, err := r.extra(number, 12)
	if err != nil {
		return nil, err
	}
	element, err := r.convert(binary.NativeEndian.Uint32(b), depth+1)
	return &btf.Array{Index: &btf.Int{Name: "int", Size: 4}, Type: element, Nelems: binary.NativeEndian.Uint32(b[8:])}, err
}
