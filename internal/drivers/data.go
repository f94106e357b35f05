package drivers

// All are the known drivers.
var All = []Driver{
	{
		Name: "ice", Hardware: "Intel E810, E82x", Native: Version{5, 5}, ZeroCopy: Version{5, 5}, MultiBuffer: Version{6, 3}, MTU: 3046,
		Resets: true, Source: "intel/ice/ice_main.c (ice_xdp_setup_prog), ice_base.c (ice_setup_rx_ctx)",
	},
	{
		Name: "i40e", Hardware: "Intel X710, XL710, X722", Native: Version{4, 13}, ZeroCopy: Version{4, 20}, MultiBuffer: Version{6, 4}, MTU: 3046,
		Resets: true, Source: "intel/i40e/i40e_main.c (i40e_xdp_setup, i40e_configure_rx_ring)",
	},
	{
		Name: "ixgbe", Hardware: "Intel 82599, X540, X550", Native: Version{4, 12}, ZeroCopy: Version{4, 20}, MTU: 3050, Unit: 1024,
		Resets: true, Note: "only the 82599 rounds buffers; more than 128 processors prevent native XDP, more than 64 make TX queues shared",
		Source: "intel/ixgbe/ixgbe_main.c (ixgbe_xdp_setup, ixgbe_configure_srrctl), ixgbe.h (IXGBE_MAX_XDP_QS)",
	},
	{
		Name: "ixgbevf", Hardware: "virtual functions of ixgbe", NoRedirect: true, Note: "its native XDP does not redirect: generic is used",
		Source: "intel/ixgbevf/ixgbevf_main.c (ixgbevf_run_xdp)",
	},
	{
		Name: "iavf", Hardware: "virtual functions of ice and i40e",
		Source: "intel/iavf/iavf_main.c (no ndo_bpf)",
	},
	{
		Name: "igb", Hardware: "Intel I210, I350, 82576", Native: Version{5, 10}, ZeroCopy: Version{6, 14}, MTU: 3046, Unit: 1024,
		Resets: true, Tested: "emulated 82576", Source: "intel/igb/igb_main.c (igb_xdp_setup, igb_setup_srrctl)",
	},
	{
		Name: "igc", Hardware: "Intel I225, I226", Native: Version{5, 13}, ZeroCopy: Version{5, 14}, MTU: 1500, Unit: 1024,
		Source: "intel/igc/igc_xdp.c (igc_xdp_set_prog), igc_main.c (igc_configure_rx_ring)",
	},
	{
		Name: "e1000e", Hardware: "Intel 82574, I217, I219", Tested: "emulated 82574L", Source: "intel/e1000e/netdev.c (no ndo_bpf)",
	},
	{
		Name: "mlx5_core", Hardware: "NVIDIA ConnectX-4 and later", Native: Version{4, 9}, ZeroCopy: Version{5, 3}, MultiBuffer: Version{6, 4}, MTU: 3498,
		Note:   "zero-copy needs an MTU that a frame holds",
		Source: "mellanox/mlx5/core/en_main.c (mlx5e_params_validate_xdp), en/params.c (mlx5e_validate_xsk_param)",
	},
	{
		Name: "mlx4_en", Hardware: "NVIDIA ConnectX-3", Native: Version{4, 8}, MTU: 3498, Source: "mellanox/mlx4/en_netdev.c (mlx4_xdp_set)",
	},
	{
		Name: "bnxt_en", Hardware: "Broadcom NetXtreme-C, -E", Native: Version{4, 11}, MultiBuffer: Version{5, 19}, MTU: 3502, Channels: Combined,
		Source: "broadcom/bnxt/bnxt_xdp.c (bnxt_xdp_set)",
	},
	{
		Name: "nfp", Hardware: "Netronome Agilio", Native: Version{4, 10}, ZeroCopy: Version{5, 18}, Note: "needs a free TX ring per RX ring",
		Source: "netronome/nfp/nfp_net_common.c (nfp_net_check_config)",
	},
	{
		Name: "stmmac", Hardware: "Synopsys MAC", Native: Version{5, 13}, ZeroCopy: Version{5, 13}, MTU: 1500, Unit: 16,
		Source: "stmicro/stmmac/stmmac_xdp.c (stmmac_xdp_set_prog), stmmac_main.c (stmmac_set_queue_rx_buf_size)",
	},
	{
		Name: "r8169", Hardware: "Realtek RTL8111, 8125, 8168", Source: "realtek/r8169_main.c (no ndo_bpf)",
	},
	{
		Name: "ena", Hardware: "AWS", Native: Version{5, 6}, MTU: 3498, Channels: Half, Resets: true,
		Source: "amazon/ena/ena_xdp.c (ena_xdp_set), ena_xdp.h (ena_xdp_allowed)",
	},
	{
		Name: "gve", Hardware: "Google Cloud", Native: Version{6, 4}, ZeroCopy: Version{6, 4}, MTU: 2032, Channels: Half,
		Note:   "refuses LRO and zero-copy frames below its largest MTU; queue formats differ by kernel",
		Source: "google/gve/gve_main.c (verify_xdp_configuration, gve_xsk_pool_enable)",
	},
	{
		Name: "hv_netvsc", Hardware: "Azure, Hyper-V", Native: Version{5, 6}, MTU: 3506, Note: "accelerated networking moves packets to a virtual function: use its interface",
		Source: "drivers/net/hyperv/netvsc_bpf.c (netvsc_xdp_set)",
	},
	{
		Name: "mana", Hardware: "Azure", Native: Version{5, 17}, MTU: 3506, Source: "microsoft/mana/mana_bpf.c (mana_xdp_set)",
	},
	{
		Name: "virtio_net", Hardware: "KVM", Native: Version{4, 10}, ZeroCopy: Version{6, 13}, MultiBuffer: Version{6, 3}, MTU: 3506, Channels: Spare,
		Note:   "zero-copy needs the feature VIRTIO_F_ACCESS_PLATFORM of the hypervisor; the channels for XDP receive, too; above an MTU of 3494, some long frames are lost after the start",
		Tested: "emulated", Source: "drivers/net/virtio_net.c (virtnet_xdp_set, virtnet_xsk_pool_enable)",
	},
	{
		Name: "vmxnet3", Hardware: "VMware", Native: Version{6, 6}, MTU: 3494, Resets: true, Tested: "emulated", ForgetsProgram: true,
		Note:   "attaching disables LRO",
		Source: "drivers/net/vmxnet3/vmxnet3_xdp.c (vmxnet3_xdp_set)",
	},
	{
		Name: "vif", Module: "xen-netfront", Hardware: "Xen", Native: Version{5, 9}, MTU: 3840, Source: "drivers/net/xen-netfront.c (xennet_xdp_set)",
	},
	{
		Name: "veth", Hardware: "pairs of virtual interfaces", Native: Version{4, 19}, MultiBuffer: Version{5, 18}, MTU: 3520,
		Note:   "the limit is that of the peer's MTU; at least as many RX queues as the peer has TX queues",
		Tested: "all end-to-end tests", Source: "drivers/net/veth.c (veth_xdp_set)",
	},
}
