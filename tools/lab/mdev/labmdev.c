// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Makes a graphics card out of QEMU's "edu" device, as far as the mdev core can see:
 * two types of mediated devices, of which CARD_SIZE can exist at a time, whatever their
 * types.  They do nothing; libvirt and the agent only count them.
 */
#include <linux/mdev.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/vfio.h>

#define CARD_SIZE 4

struct instance {
	struct vfio_device vfio; /* first: vfio_alloc_device() wants it so */
};

struct card {
	struct mdev_parent parent;
	struct mdev_type small, large;
	struct mdev_type *types[2];
};

static int instance_init(struct vfio_device *vfio)
{
	return 0;
}

static void instance_release(struct vfio_device *vfio)
{
	vfio_free_device(vfio);
}

static const struct vfio_device_ops instance_ops = {
	.name = "labmdev",
	.init = instance_init,
	.release = instance_release,
};

static int instance_create(struct mdev_device *mdev)
{
	struct instance *made;
	int failed;

	made = vfio_alloc_device(instance, vfio, &mdev->dev, &instance_ops);
	if (IS_ERR(made))
		return PTR_ERR(made);
	failed = vfio_register_emulated_iommu_dev(&made->vfio);
	if (failed) {
		vfio_put_device(&made->vfio);
		return failed;
	}
	dev_set_drvdata(&mdev->dev, made);
	return 0;
}

static void instance_destroy(struct mdev_device *mdev)
{
	struct instance *gone = dev_get_drvdata(&mdev->dev);

	vfio_unregister_group_dev(&gone->vfio);
	vfio_put_device(&gone->vfio);
}

static ssize_t describe(struct mdev_type *type, char *text)
{
	return sysfs_emit(text, "a mediated device of the lab that does nothing\n");
}

/* Without get_available the core counts for itself, down from max_instances. */
static struct mdev_driver instance_driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.max_instances = CARD_SIZE,
	.probe = instance_create,
	.remove = instance_destroy,
	.show_description = describe,
	.driver = {
		.name = "labmdev",
		.owner = THIS_MODULE,
		.mod_name = KBUILD_MODNAME,
	},
};

static int card_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct card *card = kzalloc(sizeof(*card), GFP_KERNEL);
	int failed;

	if (!card)
		return -ENOMEM;
	card->small.sysfs_name = "small";
	card->small.pretty_name = "LAB-1Q";
	card->large.sysfs_name = "large";
	card->large.pretty_name = "LAB-2Q";
	card->types[0] = &card->small;
	card->types[1] = &card->large;
	failed = mdev_register_parent(&card->parent, &pci->dev, &instance_driver,
				      card->types, ARRAY_SIZE(card->types));
	if (failed) {
		kfree(card);
		return failed;
	}
	pci_set_drvdata(pci, card);
	return 0;
}

static void card_remove(struct pci_dev *pci)
{
	struct card *card = pci_get_drvdata(pci);

	mdev_unregister_parent(&card->parent);
	kfree(card);
}

static const struct pci_device_id card_ids[] = {
	{ PCI_DEVICE(0x1234, 0x11e8) }, /* edu */
	{ }
};

static struct pci_driver card_driver = {
	.name = "labmdev",
	.id_table = card_ids,
	.probe = card_probe,
	.remove = card_remove,
};

static int __init labmdev_init(void)
{
	int failed = mdev_register_driver(&instance_driver);

	if (failed)
		return failed;
	failed = pci_register_driver(&card_driver);
	if (failed)
		mdev_unregister_driver(&instance_driver);
	return failed;
}

static void __exit labmdev_exit(void)
{
	pci_unregister_driver(&card_driver);
	mdev_unregister_driver(&instance_driver);
}

module_init(labmdev_init);
module_exit(labmdev_exit);
MODULE_DESCRIPTION("Mediated devices for the lab hypervisor");
MODULE_LICENSE("GPL");
