package logtest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

var le = binary.LittleEndian

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Mended returns a log with right checksums in all blocks, whatever was changed in the blocks
// (FORMAT.md: marker, length at 12, checksum of the payload at 16, of the header at 20).
func Mended(log []byte) []byte {
	log = bytes.Clone(log)
	for at := 16; at+24 <= len(log) && bytes.HasPrefix(log[at:], []byte{0xCD, 0x7A, 0xB1, 0x0C}); {
		length := int(le.Uint32(log[at+12:]))
		if at+24+length > len(log) {
			break
		}
		le.PutUint32(log[at+16:], checksum(log[at+24:at+24+length]))
		le.PutUint32(log[at+20:], checksum(log[at:at+20]))
		at += 24 + length
	}
	return log
}
