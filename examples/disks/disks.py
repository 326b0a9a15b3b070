from pathlib import Path

from oslo_config import cfg

from drivers.api import ComputeDriver, DriverNotReady

OPTIONS = [cfg.StrOpt("sysfs", default="/sys", help="Where sysfs is mounted.")]
SECTORS_PER_GB = 2 * 1024 * 1024


class DisksDriver(ComputeDriver):
    @classmethod
    def list_opts(cls):
        return [("disks", OPTIONS)]

    def get_available_nodes(self):
        return [self.context.host]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        if nodename != self.context.host:
            raise DriverNotReady(f"there is no node {nodename}")
        sizes = {f"{nodename}_disk_{name}": gb for name, gb in self.disks().items()}
        for name, gb in sizes.items():
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            provider_tree.update_inventory(name, {"DISK_GB": {"total": gb}})
            provider_tree.add_traits(name, "CUSTOM_LOCAL_DISK")
        for name in self.reported(provider_tree, nodename).difference(sizes):
            provider_tree.remove(name)

    def disks(self):
        block = Path(self.context.conf.disks.sysfs) / "block"
        try:
            sectors = {it.name: int((it / "size").read_text()) for it in block.iterdir()}
        except (OSError, ValueError) as err:
            raise DriverNotReady(f"{block}: {err}") from err
        found = {name: count // SECTORS_PER_GB for name, count in sectors.items()}
        return {name: gb for name, gb in sorted(found.items()) if gb}

    def reported(self, provider_tree, nodename):
        """Names of the disks that an earlier period has reported."""
        uuids = provider_tree.get_provider_uuids(nodename)
        names = {provider_tree.data(uuid).name for uuid in uuids}
        return {name for name in names if is_disk(name, nodename)}


def is_disk(name, nodename):
    return name.rpartition("_")[0] == f"{nodename}_disk"
