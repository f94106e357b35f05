package gpu

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/cheader"
	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

func TestCHeader(t *testing.T) {
	h := &cheader.Header{}
	defineResults(h)
	defineTables(h)
	definePackets(h)
	defineMailbox(h)
	defineJobs(h)
	h.Check(t, "kernel/layout.h")

	h = &cheader.Header{}
	h.Struct("memory", shimHeader{}, "ipv4", "ipv6", "next_hops", "groups", "adjacencies", "ports", "ingress", "partial_checksums",
		"jobs", "keys", "policies", "spis", "seqs", "tunnels", "now_serving", "slot", "in", "out", "umem", "umem_bytes", "seed", "generation")
	h.Struct("state", fake{}, "calls", "fail_at", "fail", "failed", "result", "held", "running", "faulted", "copies", "version", "mode", "mps", "partitioned", "busy", "peers", "enabled")
	h.Check(t, "testdata/layout.h")
}

func defineResults(h *cheader.Header) {
	h.Comment("Verdicts: package batch.")
	h.Define("ACTION_DROP", uint64(batch.ActionDrop))
	h.Define("ACTION_FORWARD", uint64(batch.ActionForward))
	h.Define("ACTION_HOLD", uint64(batch.ActionHold), "the neighbor is unresolved")
	h.Define("MAX_PORTS", batch.MaxPorts)
	h.Define("DROP_NONE", 0)
	for _, r := range []batch.Reason{
		batch.TooShort, batch.EtherType, batch.IPVersion, batch.HeaderLength, batch.BadLength, batch.BadChecksum, batch.IPOptions, batch.TTLExpired,
		batch.SourceMartian, batch.DestMartian, batch.FragmentOverlap, batch.RoutingHeader, batch.ExtensionHeaders, batch.NoRoute, batch.Blackhole,
		batch.Unreachable, batch.Prohibit, batch.LocalDelivery, batch.NoPort, batch.PortDown, batch.MTUExceeded, batch.XfrmInStateProtoError,
		batch.XfrmInStateModeError, batch.XfrmInDummy, batch.XfrmInECNError, batch.XfrmOutStateProtoError, batch.ReversePath,
		batch.NoTable,
	} {
		h.Define("DROP_"+strings.ToUpper(r.String()), uint64(r))
	}
	h.Struct("frame", batch.Frame{}, "addr", "len", "port")
	h.Struct("result", batch.Result{}, "addr", "len", "verdict")
}

func defineTables(h *cheader.Header) {
	h.Comment("Words of the forwarding tables: package fib.")
	for k := fib.KindNone; k <= fib.KindNoTable; k++ {
		h.Define("KIND_"+strings.ToUpper(strings.ReplaceAll(k.String(), " ", "_")), uint64(k))
	}
	h.Define("HOP_KIND_SHIFT", fib.KindShift)
	h.Define("HOP_MTU_SHIFT", fib.MTUShift)
	h.Define("HOP_ZERO_SHIFT", fib.ZeroShift)
	h.Define("HOP_GROUP_SHIFT", fib.GroupShift)
	h.Define("WORD_MAC_SHIFT", fib.MACShift)
	h.Define("ADJACENCY_TAGGED_SHIFT", fib.TaggedShift)
	h.Define("ADJACENCY_ZERO_SHIFT", fib.UnusedShift)
	h.Define("ECMP_BUCKETS", fib.Buckets, "adjacencies of an ECMP group")
	h.Define("PORT_VRF_SHIFT", fib.VRFShift, "of the word of a port for received packets")
	h.Define("RPF_OFF", uint64(fib.RPFOff))
	h.Define("RPF_LOOSE", uint64(fib.RPFLoose))
	h.Define("RPF_STRICT", uint64(fib.RPFStrict))
	h.Struct("tables", tablePointers{}, "ipv4", "ipv6", "next_hops", "groups", "adjacencies", "ports", "ingress", "generation", "partial_checksums", "seed", "hot")
	h.Struct("patch", patch{}, "at", "word", "count", "bytes")
}

func definePackets(h *cheader.Header) {
	h.Comment("Headers: package packet.")
	h.Define("ETHERTYPE_IPV4", uint64(packet.EtherTypeIPv4), "0x0800")
	h.Define("ETHERTYPE_IPV6", uint64(packet.EtherTypeIPv6), "0x86dd")
	for _, p := range []struct {
		name   string
		number packet.Protocol
	}{
		{"HOP_BY_HOP", packet.HopByHop}, {"TCP", packet.TCP}, {"UDP", packet.UDP}, {"ROUTING", packet.Routing},
		{"FRAGMENT", packet.Fragment}, {"AH", packet.AH}, {"DEST_OPTIONS", packet.DestOptions},
	} {
		h.Define("PROTOCOL_"+p.name, uint64(p.number))
	}
	h.Define("MAX_TAGS", fib.MaxTags, "VLAN tags that the host has removed from a frame at most")
	h.Define("TAG_LEN", fib.TagLen)
	h.Define("ETHERNET_LEN", packet.EthernetLen)
	h.Define("IPV4_LEN", packet.IPv4Len, "without options")
	h.Define("IPV6_LEN", packet.IPv6Len)
}

func defineMailbox(h *cheader.Header) {
	h.Comment("Mailbox (mailbox.h).")
	h.Define("DESC_LINE_LANES", cacheLineWords, "64-bit words of a descriptor cache line, one per lane")
	h.Define("DESC_LINE_FRAMES", cacheLineFrames)
	h.Define("HALF_BATCH_PACKETS", halfBatch, "most packets of a warp batch that has two cache lines")
	h.Define("BATCH_FRAMES", batchFrames, "of a warp batch")
	h.Define("RELEASED_AT", releasedAt, "offset in the mailbox")
	h.Define("GATEWAY_DEPTH", gatewayDepth, "slots of a gateway's block")
	h.Define("FIRST_TILE", firstTileAt, "offset in a slot")
	h.Define("TILE_PACKETS", tilePackets, "fields of a tile header: the packets are its remainder by this number,")
	h.Define("TILE_BATCH_SHIFT", tileBatchShift, "packets of each batch but the last,")
	h.Define("TILE_BATCH_PACKETS", tileBatchPackets)
	h.Define("TILE_WORKER_SHIFT", tileWorkerShift, "worker,")
	h.Define("TILE_WORKERS", tileWorkers)
	h.Define("INLINE_HEADERS", inlineHeadersFlag, "flags: headers are inlined,")
	h.Define("INLINE_SHORT_HEADERS", inlineShortHeadersFlag, "short headers are inlined,")
	h.Define("HAS_JOBS", hasJobsFlag, "packets have ESP jobs (job.h)")
	h.Define("FIND_SAS", findSAsFlag, "the device finds the SAs of received ESP (find_sa.h)")
	h.Define("CLASSIFY", classifyFlag, "the device finds the tunnels of plaintext to seal (classify.h)")
	h.Define("CLAMP_MSS", clampMSSFlag, "with CLASSIFY: the host lowers MSS options")
	h.Define("EXPECT_SA", expectFlag, "all packets are expected to be of one SA (expect.h)")
	h.Define("SEQ", seqFlag, "sequence numbers (seq_assign.h), in one of these combinations:")
	h.Define("ASSIGN_SEQS", assignSeqsFlags, "the device assigns sequence numbers to packets, and seals them")
	h.Define("SEQ_REQUESTS", seqRequestFlags, "no other of these flags: requests of the host about sequence numbers")
	h.Define("STOP", stop, "control word: the kernel ends")
	h.Define("INLINE_BATCHES", inlineBatches, "batches of a slot with room for inlined headers")
	h.Define("HEADER_BYTES", 8*headerWords)
	h.Define("SHORT_HEADER_BYTES", 8*shortHeaderWords)
	h.Define("SHORT_HEADER_WORD", shortHeaderAt/4, "header word at which a short header begins")
	h.Define("COMPLETION_BYTES", 8*completionWords)
	h.Define("TAG_COUNT", tagCount, "a tile's tag is 1 + number % TAG_COUNT")
	h.Comment("Launch shape.")
	h.Define("FORWARD_THREADS", threads, "maximum per block")
	h.Define("GATEWAY_THREADS", gatewayThreads)
	h.Define("FORWARD_HEADER", forwardHeader, "bytes of shared memory: per block,")
	h.Define("FORWARD_SCRATCH", forwardScratch, "per warp,")
	h.Define("GATEWAY_HEADER", gatewayHeader, "of a gateway: per block,")
	h.Define("GATEWAY_SCRATCH", gatewayScratch, "per warp, with its struct tile,")
	h.Define("AES_BYTES", aesBytes, "and of a gateway's block")
	h.Define("AES_ENCRYPT_BYTES", aesEncryptBytes, "or of one that does not decrypt AES-CBC")
	h.Struct("worker_memory", workerMemory{}, "umem", "bytes")
	h.Struct("mailbox", params{}, "slots", "slot_bytes", "results", "descriptors", "jobs", "headers", "short_headers", "completions", "block_count",
		"workers", "control", "awake", "tables")
}

func defineJobs(h *cheader.Header) {
	h.Comment("ESP jobs (job.h): kinds and flags.")
	h.Define("JOB_KIND", 3, "mask of the kind")
	h.Define("JOB_PLAIN", uint64(esp.Plain), "no ESP processing, only lookup")
	h.Define("JOB_DECIDED", uint64(esp.Decided), "no processing: the host has decided")
	h.Define("JOB_NONE", uint64(esp.Decided), "the same: the lane has no packet, or none that the device seals, opens or looks up")
	h.Define("JOB_SEAL", uint64(esp.Seal), "encrypt in place: the host wrote headers, padding, and a nonce as CBC's IV, unless JOB_ENCAPSULATE is set")
	h.Define("JOB_OPEN", uint64(esp.Open))
	h.Define("JOB_EXTENDED", jobExtended, "64-bit sequence numbers")
	h.Define("JOB_TRANSPORT", jobTransport, "open: transport mode")
	h.Define("JOB_UDP_CHECKSUM", jobUDPChecksum, "seal: compute the checksum of UDP in front of ESP, over IPv6")
	h.Define("JOB_ENCAPSULATE", jobEncapsulate, "seal: write all headers (encapsulate.h)")
	h.Define("JOB_ARG_SHIFT", jobArgShift, "open: the outer traffic class; in transport mode the offset of the next-header field")
	h.Define("JOB_KEY_SEGMENTS_SHIFT", jobKeySegmentsShift)
	h.Define("JOB_ICV_FAILED", batch.ICVFailureSize, "as the length of a dropped packet: the ICV does not match")
	h.Define("RESULT_ADMITTED", esp.Admitted, "open: in the address of a forwarded packet: the policies of both directions admit it")
	h.Define("RESULT_HOST", uint64(resultHost), "a verdict, of a packet that the host has to process")
	h.Define("RESULT_NEEDS_SEQ", uint64(resultNeedsSeq), "a verdict: the packet is to be sealed by the tunnel in place of its address, with a sequence number that the host takes")
	h.Define("RESULT_HOST_SEALS", uint64(resultHostSeals), "a verdict: the host has to seal the packet, with a sequence number that the device has taken (seq_assign.h)")
	h.Comment("SA lookup (find_sa.h).")
	h.Define("FRAME_BYTES", umem.FrameSize)
	h.Define("HEADERS_IPV6", device.HeadersIPv6, "bits of esp_key.headers")
	h.Define("HEADERS_UDP", device.HeadersUDP)
	h.Define("HEADERS_SET_DF", device.HeadersSetDF)
	h.Define("HEADERS_COPY_DF", device.HeadersCopyDF)
	h.Define("SPI_SLOTS", spiSlots)
	h.Define("SPI_SHIFT", spiShift)
	h.Define("SPI_HASH", spiHash)
	h.Define("SPI_REMOVED", spiRemoved)
	h.Comment("Expected SA (expect.h).")
	h.Define("EXPECT_KEY_SHIFT", expectKeyShift)
	h.Define("EXPECT_OPEN", expectOpen, "the SA is inbound")
	h.Define("EXPECT_EXTENDED", expectExtended, "64-bit sequence numbers")
	h.Comment("Sequence numbers that the device assigns (seq_assign.h).")
	h.Define("TUNNELS", maxTunnels, "of which the device can know the SA")
	h.Define("TICKETS", tickets, "tickets wrap at this number. Flags beside them:")
	h.Define("LOCK_WAITS", lockWaits)
	h.Define("LOCK_EARLY", lockEarly)
	h.Define("SA_EXTENDED_SHIFT", saExtendedShift, "position in the word of a tunnel: 64-bit sequence numbers")
	h.Define("REQUEST_LEND", requestLend)
	h.Define("REQUEST_EXTEND", requestExtend)
	h.Define("REQUEST_TAKE", requestTake)
	h.Define("REQUEST_RETIRE", requestRetire)
	h.Define("SEQS_LOW", seqsLow, "numbers; with fewer left, the device reports REPORT_SEQS_LOW")
	h.Define("REPORT_SEQS_LOW", esp.ReportSeqsLow, "in the upper half of a report about an SA")
	h.Struct("job", deviceJob{}, "key", "seq_high", "esp", "bytes", "ip_len", "flags")
	h.Struct("seq_request", seqRequest{}, "key", "seq_low", "extended", "tunnel", "seq_high", "what")
	h.Struct("sa_seqs", saSeqs{}, "next", "last")
	h.Struct("ipsec_tables", ipsecTablesParams{}, "keys", "policies", "spis", "seqs", "tunnels", "now_serving", "staging_words", "aes_bytes")
}
