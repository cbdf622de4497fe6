package kerneltypes

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// reduce makes a description of only those structs and members that the program's own
// description has, too.
func (k *rawTypes) reduce(program *btf.Spec) (*btf.Spec, error) {
	r := &reducer{rawTypes: k, program: program, done: map[string]*btf.Struct{}}
	var all []btf.Type
	for _, name := range structs {
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
