package ipsec

// Error is the reason of a refused packet, with the names of Linux in /proc/net/xfrm_stat where
// Linux has one. OK is no error.
type Error uint8

const (
	OK Error = iota

	InHdrError        // outer header
	InNoStates        // no SA
	InStateInvalid    // SA was killed
	InStateExpired    // hard lifetime
	InStateDirError   // SA is for the other direction
	InStateMismatch   // UDP encapsulation differs
	InStateSeqError   // replay
	InStateProtoError // not authentic, or the payload is no ESP payload
	InStateModeError  // payload does not match the SA's mode
	InTmplMismatch    // policy requires another SA, or none
	InNoPols          // no policy
	InPolBlock        // policy discards
	InBufferError     // does not fit
	InDummy           // dummy packet (ours: Linux counts InStateProtoError)
	InECNError        // congestion that the inner packet cannot carry (ours: Linux accepts it)

	OutNoStates        // no SA
	OutStateInvalid    // SA was killed
	OutStateExpired    // hard lifetime
	OutStateDirError   // SA is for the other direction
	OutStateSeqError   // sequence numbers used up
	OutStateProtoError // suite
	OutStateModeError  // packet does not match the SA's mode
	OutPolBlock        // policy discards
	OutBundleGenError  // the policy's headers cannot be built
	OutError           // does not fit

	PolicyRefused // unsupported policy, of either direction (ours: Linux would follow it)
	OutNoPols     // no policy of the XFRM interface (ours: Linux counts tx_carrier_errors of the interface)

	Errors // number of errors
)

var errorTexts = [Errors]struct{ name, sentence string }{
	OK: {"OK", "the packet is right"},

	InHdrError:        {"XfrmInHdrError", "the headers in front of ESP are malformed or those of a fragment"},
	InNoStates:        {"XfrmInNoStates", "no security association has the SPI and the address"},
	InStateInvalid:    {"XfrmInStateInvalid", "the security association was removed"},
	InStateExpired:    {"XfrmInStateExpired", "the security association has reached its hard lifetime"},
	InStateDirError:   {"XfrmInStateDirError", "the security association is for sending"},
	InStateMismatch:   {"XfrmInStateMismatch", "the packet is in UDP and the security association is not, or the reverse"},
	InStateSeqError:   {"XfrmInStateSeqError", "the sequence number was received before or is older than the replay window"},
	InStateProtoError: {"XfrmInStateProtoError", "the packet is not authentic, or its padding is wrong"},
	InStateModeError:  {"XfrmInStateModeError", "what was protected is not what the security association's mode carries"},
	InTmplMismatch:    {"XfrmInTmplMismatch", "the packet was not protected as the policy demands"},
	InNoPols:          {"XfrmInNoPols", "no policy is for the packet"},
	InPolBlock:        {"XfrmInPolBlock", "a policy discards the packet"},
	InBufferError:     {"XfrmInBufferError", "the packet is not within its buffer"},
	InDummy:           {"XfrmInDummy", "the packet is a dummy, made to conceal how much traffic there is"},
	InECNError:        {"XfrmInECNError", "the outer header reports congestion, of which the inner packet cannot be told"},

	OutNoStates:        {"XfrmOutNoStates", "no security association is there for what a policy protects"},
	OutStateInvalid:    {"XfrmOutStateInvalid", "the security association was removed"},
	OutStateExpired:    {"XfrmOutStateExpired", "the security association has reached its hard lifetime"},
	OutStateDirError:   {"XfrmOutStateDirError", "the security association is for receiving"},
	OutStateSeqError:   {"XfrmOutStateSeqError", "the sequence numbers of the security association are used up"},
	OutStateProtoError: {"XfrmOutStateProtoError", "the packet could not be encrypted"},
	OutStateModeError:  {"XfrmOutStateModeError", "the packet is not one that the security association's mode carries"},
	OutPolBlock:        {"XfrmOutPolBlock", "a policy discards the packet"},
	OutBundleGenError:  {"XfrmOutBundleGenError", "what the policy demands cannot be built"},
	OutError:           {"XfrmOutError", "the protected packet does not fit its buffer"},

	PolicyRefused: {"XfrmPolicyRefused", "an XFRM policy matches that this router cannot follow"},
	OutNoPols:     {"XfrmOutNoPols", "no policy of the XFRM interface is for the packet"},
}

// String returns the name in Linux's style, as in metrics.
func (e Error) String() string {
	if e < Errors {
		return errorTexts[e].name
	}
	return "XfrmUnknown"
}

// Sentence explains the error, without a full stop.
func (e Error) Sentence() string {
	if e < Errors {
		return errorTexts[e].sentence
	}
	return "an error that has no description"
}
