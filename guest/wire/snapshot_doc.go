// This file describes the form in which the guest keeps the state of a shell
// where the host can read it after the guest has gone: in two files with
// content, of which one is whole at any time, and an index that says which. The
// files have no name; the host gets descriptors of them, see handover_doc.go.
//
// # The index
//
// The index holds two records of [RecordLen] bytes, at 0 and [RecordLen],
// which are written in turns. The whole one with the higher serial number
// counts. Numbers are little-endian.
//
//	offset 0   magic   "BKSS"
//	offset 4   file    uint32  0 or 1; 2 when no state is kept
//	offset 8   serial  uint64  of this record, one higher each time
//	offset 16  kept    uint32  the line after which the state was written, 0 before the first
//	offset 20  over    uint32  the last line after which nothing more will be kept of it
//	offset 24  size    uint32  of the content in bytes, at most [MaxSize]
//	offset 28  sum     uint32  CRC-32C of the content
//	offset 32  check   uint32  CRC-32C of the 32 bytes before
//
// Lines are named by the numbers of their streams (package wire).
//
// # Order of writes
//
// A state is written to the file that the last record does not name, and then a
// record is written, by one write. So at whatever time a process dies, the last
// record and the file that it names are whole. A reader may find that a file
// changes while the guest lives: the sum does not match then, and the reader
// reads again.
//
// The sums protect against moments, not against malice. The reader bounds
// sizes, and takes the content for what any code in the sandbox could have
// written: a script that only a shell in a sandbox ever reads.

package wire
