package cell

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// machine is how calls of the kernel are numbered somewhere.
type machine struct {
	arch uint32   // AUDIT_ARCH_*
	mask uint32   // what of a number counts
	keys []uint32 // add_key, request_key, keyctl
}

// keyFilter is a program for seccomp under which the keyrings of whoever started
// greenward, Kerberos tickets among them, are as if the kernel had none: they would
// be the cell's too, as no namespace parts them. It stands in the byte order of the
// machines that it knows; any other lets all calls pass.
func keyFilter() []byte {
	const (
		load, equal, and, ret = 0x20, 0x15, 0x54, 0x06 // BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_ALU|AND|K, BPF_RET|K
		number, arch          = 0, 4                   // offsets in struct seccomp_data
		allow, refuse         = 0x7fff0000, 0x00050000 | 38
	)
	var program bytes.Buffer
	add := func(code uint16, yes, no int, k uint32) {
		program.Write(binary.LittleEndian.AppendUint16(nil, code))
		program.Write([]byte{byte(yes), byte(no)}) //nolint:gosec // a few steps
		program.Write(binary.LittleEndian.AppendUint32(nil, k))
	}
	add(load, 0, 0, arch)
	for _, m := range []machine{
		{0xc000003e, ^uint32(0x40000000), []uint32{248, 249, 250}}, // x86-64, x32 too
		{0x40000003, ^uint32(0), []uint32{286, 287, 288}},          // i386
		{0xc00000b7, ^uint32(0), []uint32{217, 218, 219}},          // arm64
		{0x40000028, ^uint32(0), []uint32{309, 310, 311}},          // arm
	} {
		add(equal, 0, len(m.keys)+4, m.arch)
		add(load, 0, 0, number)
		add(and, 0, 0, m.mask)
		for i, call := range slices.Backward(m.keys) {
			add(equal, i+1, 0, call)
		}
		add(ret, 0, 0, allow)
		add(ret, 0, 0, refuse)
	}
	add(ret, 0, 0, allow)
	return program.Bytes()
}
