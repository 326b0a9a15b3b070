from pathlib import Path

from oslo_config import cfg

from drivers.api import Device, DeviceDriver

OPTIONS = [cfg.StrOpt("sysfs", default="/sys", help="Where sysfs is mounted.")]
SECTORS_PER_GB = 2 * 1024 * 1024


class DisksDriver(DeviceDriver):
    @classmethod
    def list_opts(cls):
        return [("disks", OPTIONS)]

    def devices(self, node):
        for disk in (Path(self.context.conf.disks.sysfs) / "block").iterdir():
            gb = int((disk / "size").read_text()) // SECTORS_PER_GB
            if gb:
                yield Device(f"disk_{disk.name}", {"DISK_GB": gb}, ["CUSTOM_LOCAL_DISK"])
