package kerneltypes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// rawTypes is the kernel's type information (linux/btf.h) before it is decoded. A type takes 12
// bytes: the place of its name u32; info u32 (a count in the low 16 bits, the kind in bits 24
// to 28, a flag in bit 31); its size or the number of another type u32. Behind these come bytes
// that depend on the kind.
type rawTypes struct {
	types, texts  []byte
	at            []uint32          // the place of each type by its number; number 0 is unused
	structs       map[string]uint32 // numbers of the structs that the program reads
	sessionNumber uint32            // of sessionFunction; 0: the kernel has none
}

// The kinds of type that the program needs.
const (
	kindInt, kindPointer, kindArray, kindStruct, kindUnion = 1, 2, 3, 4, 5
	kindTypedef, kindVolatile, kindConst, kindRestrict     = 8, 9, 10, 11
	kindFunction, kindTypeTag                              = 12, 18
)

// btfExtra is the number of bytes behind a type of each kind: a fixed number, and a number for
// each of its count.
var btfExtra = [...]struct{ fixed, each int }{
	kindInt: {4, 0}, kindArray: {12, 0}, kindStruct: {0, 12}, kindUnion: {0, 12}, 6: {0, 8}, // enum
	13: {0, 8}, 14: {4, 0}, 15: {0, 12}, 17: {4, 0}, kindTypeTag: {0, 0}, 19: {0, 12}, // prototype, variable, section, tag, enum64
}

var errBadBTF = errors.New("it is malformed")

// parse reads the headers, and finds by name the types that the program needs.
func parse(raw []byte) (*rawTypes, error) {
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
		switch kind {
		case kindStruct:
			k.noteStruct(name, number)
		case kindFunction:
			if k.sessionNumber == 0 && k.isText(name, sessionFunction) {
				k.sessionNumber = number
			}
		}
		at += 12 + btfExtra[kind].fixed + count*btfExtra[kind].each
	}
	return nil
}

func (k *rawTypes) noteStruct(name, number uint32) {
	for _, wanted := range structs {
		if k.isText(name, wanted) && k.structs[wanted] == 0 {
			k.structs[wanted] = number
		}
	}
}

// isText says whether a text is at a place of the string section.
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
