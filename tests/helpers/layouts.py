"""Folders as real data sets have them: small synthetic copies, with the class of each image that the authors mean.

An image is named by `PATH: CLASS`, a list of images by ranges: `a/{0-3}.png` are four images.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.helpers.image_files import png

_MASK = re.compile("masks/|_mask|trimaps/")  # paths of images with two values


@dataclass(frozen=True)
class Layout:
    """A synthetic copy of a data set's folders."""

    name: str
    train: dict[str, str]  # from image paths to their class; all images if the authors name no split
    test: dict[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()  # images that are not part of the experiment, such as masks or unlabelled test images
    texts: dict[str, str] = field(default_factory=dict)
    # whether new-suite finds these labels; otherwise a regular expression of the line in which it refuses or proposes
    chosen: bool | str = True
    written: str = ""  # lines of `[data]` in docs/own-data.md's table; empty if nothing can be written

    def expand(self, part: str) -> dict[str, str]:
        """Return the class of each image of a part, `train` or `test`."""
        classes = {"train": self.train, "test": self.test}[part]
        return {path: label for pattern, label in classes.items() for path in expand_range(pattern)}

    def make(self, folder: Path) -> Path:
        """Write the data set to a folder."""
        paths = [*self.expand("train"), *self.expand("test")]
        paths += [path for pattern in self.others for path in expand_range(pattern)]
        numbers: dict[str, int] = {}  # equal for the copies in Malaria's folder `cell_images/cell_images`
        for path in paths:
            number = numbers.setdefault(path.rpartition("cell_images/")[2], len(numbers))
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(_make_image(number, bool(_MASK.search(path))))
        for path, text in self.texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder


def _make_image(number: int, is_mask: bool) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)
    return png((pixels[..., 0] > 99).astype(np.uint8) * 255 if is_mask else pixels)


def expand_range(pattern: str) -> list[str]:
    """Return the paths of a pattern: `a{0-2}.png` is `a0.png`, `a1.png` and `a2.png`."""
    if not (found := re.search(r"\{(\d+)-(\d+)\}", pattern)):
        return [pattern]
    first, last = found.groups()
    numbers = range(int(first), int(last) + 1)
    return [f"{pattern[: found.start()]}{n:0{len(first)}}{pattern[found.end() :]}" for n in numbers]


def lines(*texts: str) -> str:
    """Return lines of a text file, in which `{0-3}` stands for four lines."""
    return "".join(f"{line}\n" for text in texts for line in expand_range(text))


LAYOUTS = [
    Layout(
        "ImageNet, prepared for torchvision",
        train={
            "train/n01440764/n01440764_{0-3}.JPEG": "n01440764",
            "train/n02102040/n02102040_{0-3}.JPEG": "n02102040",
        },
        test={"val/n01440764/v{0-1}.JPEG": "n01440764", "val/n02102040/w{0-1}.JPEG": "n02102040"},
        written='images = "FOLDER"\ntrain = "train"\ntest = "val"',
    ),
    Layout(
        "ImageNet of Kaggle",
        train={
            "ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_{0-3}.JPEG": "n01440764",
            "ILSVRC/Data/CLS-LOC/train/n02102040/n02102040_{0-3}.JPEG": "n02102040",
        },
        test={
            "ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_{0001-0002}.JPEG": "n02102040",
            "ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_{0003-0004}.JPEG": "n01440764",
        },
        others=("ILSVRC/Data/CLS-LOC/test/ILSVRC2012_test_{0001-0003}.JPEG",),
        texts={
            "LOC_val_solution.csv": "ImageId,PredictionString\n"
            + lines("ILSVRC2012_val_{0001-0002},n02102040 85 1 499 272 n02102040 1 2 3 4 ")
            + lines("ILSVRC2012_val_{0003-0004},n01440764 85 1 499 272 "),
            "LOC_train_solution.csv": "ImageId,PredictionString\n"
            + lines("n01440764_{0-3},n01440764 1 2 3 4 ", "n02102040_{0-3},n02102040 1 2 3 4 "),
            "LOC_sample_submission.csv": "ImageId,PredictionString\n"
            + lines("ILSVRC2012_test_{0001-0003},n01440764 0 0 50 50 "),
            "LOC_synset_mapping.txt": "n01440764 tench, Tinca tinca\nn02102040 English springer\n",
        },
        written='images = "FOLDER"\nlabels = "LOC_val_solution.csv"\ntrain = "ILSVRC/Data/CLS-LOC/train"\n'
        'test = "ILSVRC/Data/CLS-LOC/val"',
    ),
    Layout(
        "Imagenette",
        train={"train/n01440764/a_{0-3}.JPEG": "n01440764", "train/n02102040/b_{0-3}.JPEG": "n02102040"},
        test={"val/n01440764/c_{0-1}.JPEG": "n01440764", "val/n02102040/d_{0-1}.JPEG": "n02102040"},
        texts={
            "noisy_imagenette.csv": "path,noisy_labels_0,noisy_labels_50,is_valid\n"
            + lines("train/n01440764/a_{0-3}.JPEG,n01440764,n02102040,False")
            + lines("train/n02102040/b_{0-3}.JPEG,n02102040,n02102040,False")
            + lines("val/n01440764/c_{0-1}.JPEG,n01440764,n01440764,True")
        },
        written='images = "FOLDER"\ntrain = "train"\ntest = "val"',
    ),
    Layout(
        "tiny-imagenet-200",
        train={
            "train/n01443537/images/n01443537_{0-3}.JPEG": "n01443537",
            "train/n02124075/images/n02124075_{0-3}.JPEG": "n02124075",
        },
        test={"val/images/val_{0-1}.JPEG": "n02124075", "val/images/val_{2-3}.JPEG": "n01443537"},
        others=("test/images/test_{0-3}.JPEG",),
        texts={
            "val/val_annotations.txt": lines(
                "val_{0-1}.JPEG\tn02124075\t0\t32\t44\t62", "val_{2-3}.JPEG\tn01443537\t3\t0\t4\t6"
            ),
            "train/n01443537/n01443537_boxes.txt": lines("n01443537_{0-3}.JPEG\t0\t10\t63\t58"),
            "train/n02124075/n02124075_boxes.txt": lines("n02124075_{0-3}.JPEG\t0\t10\t63\t58"),
            "wnids.txt": "n02124075\nn01443537\n",
            "words.txt": "n02124075\tEgyptian cat\nn01443537\tgoldfish\n",
        },
        written='images = "FOLDER"\nlabels = "val/val_annotations.txt"\ntrain = "train"\ntest = "val"',
    ),
    Layout(
        "CUB-200-2011",
        train={
            "images/001.Black_footed_Albatross/Black_{0-2}.jpg": "001.Black_footed_Albatross",
            "images/002.Laysan_Albatross/Laysan_{0-2}.jpg": "002.Laysan_Albatross",
        },
        test={
            "images/001.Black_footed_Albatross/Black_{3-4}.jpg": "001.Black_footed_Albatross",
            "images/002.Laysan_Albatross/Laysan_{3-4}.jpg": "002.Laysan_Albatross",
        },
        texts={
            "images.txt": "".join(
                f"{1 + 5 * k + i} {c}/{c[4:].split('_')[0]}_{i}.jpg\n"
                for k, c in enumerate(("001.Black_footed_Albatross", "002.Laysan_Albatross"))
                for i in range(5)
            ),
            "image_class_labels.txt": "".join(f"{1 + n} {1 + n // 5}\n" for n in range(10)),
            "train_test_split.txt": "".join(f"{1 + n} {int(n % 5 < 3)}\n" for n in range(10)),
            "bounding_boxes.txt": "".join(f"{1 + n} 60.0 27.0 325.0 304.0\n" for n in range(10)),
            "classes.txt": "1 001.Black_footed_Albatross\n2 002.Laysan_Albatross\n",
            "README": "x",
        },
        written='images = "FOLDER"\nclass_depth = 2\nlabels = ["images.txt", "train_test_split.txt"]\n'
        'split_column = "train_test_split.txt"\ntrain = "1"\ntest = "0"',
    ),
    Layout(
        "Food-101",
        train={"images/apple_pie/{100-102}.jpg": "apple_pie", "images/sushi/{100-102}.jpg": "sushi"},
        test={"images/apple_pie/{200-201}.jpg": "apple_pie", "images/sushi/{200-201}.jpg": "sushi"},
        texts={
            "meta/train.txt": lines("apple_pie/{100-102}", "sushi/{100-102}"),
            "meta/test.txt": lines("apple_pie/{200-201}", "sushi/{200-201}"),
            "meta/classes.txt": "apple_pie\nsushi\n",
            "meta/labels.txt": "Apple pie\nSushi\n",
            "meta/train.json": "{}",
            "README.txt": "Food-101",
        },
        written='images = "FOLDER"\nclass_depth = 2\ntrain = "meta/train.txt"\ntest = "meta/test.txt"',
    ),
    Layout(
        "Oxford-IIIT Pet",
        train={"images/Abyssinian_{1-3}.jpg": "1", "images/american_bulldog_{1-3}.jpg": "2"},
        test={"images/Abyssinian_{4-5}.jpg": "1", "images/american_bulldog_{4-5}.jpg": "2"},
        others=("annotations/trimaps/Abyssinian_{1-5}.png", "annotations/trimaps/american_bulldog_{1-5}.png"),
        texts={
            "annotations/list.txt": "#Image CLASS-ID SPECIES BREED ID\n#ID: 1:37 Class ids\n"
            + lines("Abyssinian_{1-5} 1 1 1", "american_bulldog_{1-5} 2 2 1"),
            "annotations/trainval.txt": lines("Abyssinian_{1-3} 1 1 1", "american_bulldog_{1-3} 2 2 1"),
            "annotations/test.txt": lines("Abyssinian_{4-5} 1 1 1", "american_bulldog_{4-5} 2 2 1"),
            "annotations/README": "x",
        },
        written='images = "FOLDER"\nlabels = "annotations/list.txt"\npath_column = "images/{1}"\n'
        'train = "annotations/trainval.txt"\ntest = "annotations/test.txt"',
    ),
    Layout(
        "HAM10000",
        train={
            "HAM10000_images_part_1/ISIC_{0024306-0024309}.jpg": "nv",
            "HAM10000_images_part_2/ISIC_{0029306-0029309}.jpg": "mel",
        },
        texts={
            "HAM10000_metadata.csv": "lesion_id,image_id,dx,dx_type,age,sex,localization\n"
            + lines("HAM_0000118,ISIC_{0024306-0024309},nv,histo,80.0,male,scalp")
            + lines("HAM_0000119,ISIC_{0029306-0029309},mel,histo,80.0,male,scalp"),
            "hmnist_8_8_L.csv": "pixel0000,pixel0001,label\n1,2,0\n3,4,1\n",
        },
        written='images = "FOLDER"\nlabels = "HAM10000_metadata.csv"\nlabel_column = "dx"\ntest_share = 0.3',
    ),
    Layout(
        "NCT-CRC-HE-100K and CRC-VAL-HE-7K",
        train={"NCT-CRC-HE-100K/ADI/ADI-{0-3}.tif": "ADI", "NCT-CRC-HE-100K/TUM/TUM-{0-3}.tif": "TUM"},
        test={"CRC-VAL-HE-7K/ADI/ADI-TCGA-{0-1}.tif": "ADI", "CRC-VAL-HE-7K/TUM/TUM-TCGA-{0-1}.tif": "TUM"},
        chosen="if the outer folders are splits, write train and test instead",
        written='images = "FOLDER"\ntrain = "NCT-CRC-HE-100K"\ntest = "CRC-VAL-HE-7K"',
    ),
    Layout(
        "NIH ChestX-ray14",
        train={
            "images_001/images/{00000001-00000003}_000.png": "No Finding",
            "images_002/images/{00000011-00000013}_000.png": "Hernia",
        },
        test={
            "images_002/images/{00000021-00000022}_000.png": "No Finding",
            "images_001/images/{00000031-00000032}_000.png": "Hernia",
        },
        others=("images_001/images/{00000041-00000043}_000.png",),
        texts={
            "Data_Entry_2017.csv": "Image Index,Finding Labels,Follow-up #,Patient ID,OriginalImage[Width,Height],\n"
            + lines(
                "{00000001-00000003}_000.png,No Finding,0,1,2682,2749,", "{00000011-00000013}_000.png,Hernia,0,1,26,27,"
            )
            + lines(
                "{00000021-00000022}_000.png,No Finding,0,1,2682,2749,", "{00000031-00000032}_000.png,Hernia,0,1,26,27,"
            )
            + lines("{00000041-00000043}_000.png,Hernia|Infiltration,0,1,2682,2749,"),
            "train_val_list.txt": lines(
                "{00000001-00000003}_000.png", "{00000011-00000013}_000.png", "{00000041-00000042}_000.png"
            ),
            "test_list.txt": lines("{00000021-00000022}_000.png", "{00000031-00000032}_000.png", "00000043_000.png"),
            "BBox_List_2017.csv": "Image Index,Finding Label,Bbox [x,y,w,h],,,\n"
            "00000011_000.png,Hernia,225.0,547.0,86.7,79.1,\n",
        },
        written='images = "FOLDER"\nlabels = "Data_Entry_2017.csv"\nlabel_column = "Finding Labels"\n'
        'train = "train_val_list.txt"\ntest = "test_list.txt"',
    ),
    Layout(
        "SUN397",
        train={
            "a/abbey/sun_{1-4}.jpg": "a/abbey",
            "a/apartment_building/outdoor/sun_{1-4}.jpg": "a/apartment_building/outdoor",
            "b/bakery/shop/sun_{1-4}.jpg": "b/bakery/shop",
            "b/bank/outdoor/sun_{1-4}.jpg": "b/bank/outdoor",
        },
        written='images = "FOLDER"\nclass_depth = "last"\ntest_share = 0.3',
    ),
    Layout(
        "PlantVillage",
        train={"color/Apple___scab/{0-3}.JPG": "Apple___scab", "color/Apple___healthy/{4-7}.JPG": "Apple___healthy"},
        others=(
            "grayscale/Apple___scab/{0-3}.JPG",
            "grayscale/Apple___healthy/{4-7}.JPG",
            "segmented/Apple___scab/{0-3}_final_masked.jpg",
            "segmented/Apple___healthy/{4-7}_final_masked.jpg",
        ),
        written='images = "FOLDER/color"\ntest_share = 0.3',
    ),
    Layout(
        "Camelyon17 of WILDS",
        train={
            "patches/patient_004_node_4/patch_patient_004_node_4_x_{10-13}_y_2.png": "1",
            "patches/patient_009_node_1/patch_patient_009_node_1_x_{10-13}_y_2.png": "0",
        },
        test={
            "patches/patient_004_node_4/patch_patient_004_node_4_x_{20-21}_y_2.png": "0",
            "patches/patient_009_node_1/patch_patient_009_node_1_x_{20-21}_y_2.png": "1",
        },
        texts={
            "metadata.csv": ",patient,node,x_coord,y_coord,tumor,slide,center,split\n"
            + lines("0,004,4,{10-13},2,1,0,0,0", "1,009,1,{10-13},2,0,0,0,0")
            + lines("2,004,4,{20-21},2,0,0,0,1", "3,009,1,{20-21},2,1,0,0,1")
        },
        chosen="metadata.csv has the columns .*, but none names an image",
        written='images = "FOLDER"\nlabels = "metadata.csv"\n'
        'path_column = "patch_patient_{patient}_node_{node}_x_{x_coord}_y_{y_coord}"\nlabel_column = "tumor"\n'
        'split_column = "split"\ntrain = "0"\ntest = "1"',
    ),
    Layout(
        "MVTec AD, one category",
        train={"test/good/{000-003}.png": "good", "test/broken_large/{000-003}.png": "broken_large"},
        others=("train/good/{000-003}.png", "ground_truth/broken_large/{000-003}_mask.png"),
        chosen="only the folder 'good' in 'train' holds images",
        written='images = "FOLDER/test"\ntest_share = 0.3',
    ),
    Layout(
        "MVTec AD, all categories",
        train={},
        others=(
            "bottle/train/good/{000-001}.png",
            "bottle/test/good/{000-001}.png",
            "bottle/test/broken_large/{000-001}.png",
            "bottle/ground_truth/broken_large/{000-001}_mask.png",
            "cable/train/good/{000-001}.png",
            "cable/test/good/{000-001}.png",
            "cable/test/bent_wire/{000-001}.png",
            "cable/ground_truth/bent_wire/{000-001}_mask.png",
        ),
        chosen="'bottle', 'cable' each hold the folders 'train' and 'test'",
    ),
    Layout(
        "COVID-19 Radiography",
        train={"COVID/images/COVID-{1-4}.png": "COVID", "Normal/images/Normal-{1-4}.png": "Normal"},
        others=("COVID/masks/COVID-{1-4}.png", "Normal/masks/Normal-{1-4}.png"),
        written='images = "FOLDER"\nleave_out = ["masks"]\ntest_share = 0.3',
    ),
    Layout(
        "BUSI",
        train={"benign/benign ({1-4}).png": "benign", "normal/normal ({1-4}).png": "normal"},
        others=("benign/benign ({1-4})_mask.png", "benign/benign (4)_mask_1.png", "normal/normal ({1-4})_mask.png"),
        written='images = "FOLDER"\nleave_out = ["*_mask*"]\ntest_share = 0.3',
    ),
    Layout(
        "GTSRB",
        train={
            "Final_Training/Images/00000/00000_{00000-00003}.ppm": "0",
            "Final_Training/Images/00001/00000_{00000-00003}.ppm": "1",
        },
        test={"Final_Test/Images/{00000-00001}.ppm": "1", "Final_Test/Images/{00002-00003}.ppm": "0"},
        texts={
            "Final_Training/Images/00000/GT-00000.csv": "Filename;Width;Height;Roi.X1;ClassId\n"
            + lines("00000_{00000-00003}.ppm;29;30;5;0"),
            "Final_Training/Images/00001/GT-00001.csv": "Filename;Width;Height;Roi.X1;ClassId\n"
            + lines("00000_{00000-00003}.ppm;29;30;5;1"),
            "GT-final_test.csv": "Filename;Width;Height;Roi.X1;ClassId\n"
            + lines("{00000-00001}.ppm;53;54;6;1", "{00002-00003}.ppm;53;54;6;0"),
            "Readme-Images.txt": "x",
        },
        written='images = "FOLDER"\nlabels = ["Final_Training/Images/*/GT-*.csv", "GT-final_test.csv"]\n'
        'train = "Final_Training"\ntest = "Final_Test"',
    ),
    Layout(
        "GTSRB of Kaggle",
        train={"Train/0/0_{0-3}.png": "0", "Train/1/1_{0-3}.png": "1", "Train/10/10_{0-3}.png": "10"},
        test={"Test/{00000-00001}.png": "10", "Test/{00002-00003}.png": "0", "Test/{00004-00005}.png": "1"},
        others=("Meta/0.png", "Meta/1.png", "Meta/10.png"),
        texts={
            "Train.csv": "Width,Height,ClassId,Path\n"
            + lines("27,26,0,Train/0/0_{0-3}.png", "27,26,1,Train/1/1_{0-3}.png", "27,26,10,Train/10/10_{0-3}.png"),
            "Test.csv": "Width,Height,ClassId,Path\n"
            + lines(
                "53,54,10,Test/{00000-00001}.png", "53,54,0,Test/{00002-00003}.png", "53,54,1,Test/{00004-00005}.png"
            ),
            "Meta.csv": "Path,ClassId,ShapeId,ColorId,SignId\n"
            + lines("Meta/0.png,0,0,0,1.1", "Meta/1.png,1,0,0,1.2", "Meta/10.png,10,0,0,1.3"),
        },
        written='images = "FOLDER"\nlabels = "Test.csv"\ntrain = "Train"\ntest = "Test"',
    ),
    Layout(
        "DTD",
        train={"images/banded/banded_{0001-0003}.jpg": "banded", "images/dotted/dotted_{0001-0003}.jpg": "dotted"},
        test={"images/banded/banded_{0006-0007}.jpg": "banded", "images/dotted/dotted_{0006-0007}.jpg": "dotted"},
        others=("images/banded/banded_{0004-0005}.jpg", "images/dotted/dotted_{0004-0005}.jpg"),
        texts={
            "labels/train1.txt": lines("banded/banded_{0001-0003}.jpg", "dotted/dotted_{0001-0003}.jpg"),
            "labels/val1.txt": lines("banded/banded_{0004-0005}.jpg", "dotted/dotted_{0004-0005}.jpg"),
            "labels/test1.txt": lines("banded/banded_{0006-0007}.jpg", "dotted/dotted_{0006-0007}.jpg"),
            "labels/train2.txt": lines("banded/banded_{0005-0007}.jpg", "dotted/dotted_{0005-0007}.jpg"),
            "labels/val2.txt": lines("banded/banded_{0003-0004}.jpg", "dotted/dotted_{0003-0004}.jpg"),
            "labels/test2.txt": lines("banded/banded_{0001-0002}.jpg", "dotted/dotted_{0001-0002}.jpg"),
            "labels/labels_joint_anno.txt": lines(
                "banded/banded_{0001-0007}.jpg banded lined", "dotted/dotted_{0001-0007}.jpg dotted"
            ),
        },
        written='images = "FOLDER"\nclass_depth = 2\ntrain = "labels/train1.txt"\ntest = "labels/test1.txt"',
    ),
    Layout(
        "FGVC-Aircraft",
        train={"data/images/{1000000-1000002}.jpg": "707-320", "data/images/{2000000-2000002}.jpg": "Challenger 600"},
        test={"data/images/{1000005-1000006}.jpg": "707-320", "data/images/{2000005-2000006}.jpg": "Challenger 600"},
        texts={
            "data/images_variant_train.txt": lines("{1000000-1000002} 707-320", "{2000000-2000002} Challenger 600"),
            "data/images_variant_test.txt": lines("{1000005-1000006} 707-320", "{2000005-2000006} Challenger 600"),
            "data/images_manufacturer_train.txt": lines("{1000000-1000002} Boeing", "{2000000-2000002} Boeing"),
            "data/images_manufacturer_test.txt": lines("{1000005-1000006} Boeing", "{2000005-2000006} Canadair"),
            "data/images_box.txt": lines("{1000000-1000002} 3 144 998 431", "{2000000-2000002} 3 144 998 431"),
            "data/variants.txt": "707-320\nChallenger 600\n",
        },
        chosen="labels in several files, which give different classes; write labels = ",
        written='images = "FOLDER"\nlabels = ["data/images_variant_train.txt", "data/images_variant_test.txt"]\n'
        'train = "data/images_variant_train.txt"\ntest = "data/images_variant_test.txt"',
    ),
    Layout(
        "Stanford Dogs",
        train={
            "Images/n02085620-Chihuahua/a_{1-4}.jpg": "n02085620-Chihuahua",
            "Images/n02085782-Spaniel/b_{1-4}.jpg": "n02085782-Spaniel",
        },
        texts={
            "Annotation/n02085620-Chihuahua/a_1": "x",
            "Annotation/n02085782-Spaniel/b_1": "x",
            "train_list.mat": "x",
        },
        written='images = "FOLDER/Images"\ntest_share = 0.3',
    ),
    Layout(
        "Caltech-101",
        train={
            "101_ObjectCategories/ant/image_{0001-0004}.jpg": "ant",
            "101_ObjectCategories/bass/image_{0001-0004}.jpg": "bass",
        },
        texts={"Annotations/ant/annotation_0001.mat": "x"},
        written='images = "FOLDER/101_ObjectCategories"\ntest_share = 0.3',
    ),
    Layout(
        "EuroSAT",
        train={"2750/Forest/Forest_{1-4}.jpg": "Forest", "2750/River/River_{1-4}.jpg": "River"},
        written='images = "FOLDER/2750"\ntest_share = 0.3',
    ),
    Layout(
        "EuroSAT with lists",
        train={"Forest/Forest_{0-3}.jpg": "Forest", "River/River_{0-3}.jpg": "River"},
        test={"Forest/Forest_{6-7}.jpg": "Forest", "River/River_{6-7}.jpg": "River"},
        others=("Forest/Forest_{4-5}.jpg", "River/River_{4-5}.jpg"),
        texts={
            f"{split}.csv": ",Filename,Label,ClassName\n"
            + lines(f"0,Forest/Forest_{{{numbers}}}.jpg,0,Forest", f"1,River/River_{{{numbers}}}.jpg,1,River")
            for split, numbers in (("train", "0-3"), ("validation", "4-5"), ("test", "6-7"))
        },
        written='images = "FOLDER"\ntrain = "train.csv"\ntest = "test.csv"',
    ),
    Layout(
        "Stanford Cars of Kaggle, with CSV files",  # images of both splits have the same names
        train={"cars_train/cars_train/{00001-00003}.jpg": "14", "cars_train/cars_train/{00004-00006}.jpg": "3"},
        test={"cars_test/cars_test/{00001-00002}.jpg": "3", "cars_test/cars_test/{00003-00004}.jpg": "14"},
        texts={
            "cardatasettrain.csv": "x1,y1,x2,y2,Class,image\n"
            + lines("39,116,569,375,14,{00001-00003}.jpg", "36,116,868,587,3,{00004-00006}.jpg"),
            "cardatasettest.csv": "x1,y1,x2,y2,Class,image\n"
            + lines("30,52,246,147,3,{00001-00002}.jpg", "100,19,576,203,14,{00003-00004}.jpg"),
        },
        written='images = "FOLDER"\nlabels = ["cardatasettest.csv", "cardatasettrain.csv"]\n'
        'train = "cars_train"\ntest = "cars_test"',
    ),
    Layout(
        "Rock, Paper, Scissors",
        train={"rps/paper/a{0-3}.png": "paper", "rps/rock/b{0-3}.png": "rock"},
        test={"rps-test-set/paper/a{4-5}.png": "paper", "rps-test-set/rock/b{4-5}.png": "rock"},
        written='images = "FOLDER"\ntrain = "rps"\ntest = "rps-test-set"',
    ),
    Layout(
        "iNaturalist 2021",
        train={
            "train_mini/00000_Animalia/a{0-3}.jpg": "00000_Animalia",
            "train_mini/00001_Plantae/b{0-3}.jpg": "00001_Plantae",
        },
        test={"val/00000_Animalia/c{0-1}.jpg": "00000_Animalia", "val/00001_Plantae/d{0-1}.jpg": "00001_Plantae"},
        texts={"train_mini.json": "{}", "val.json": "{}"},
        written='images = "FOLDER"\ntrain = "train_mini"\ntest = "val"',
    ),
    Layout(
        "iNaturalist 2019",
        train={"Plants/5/a{0-3}.jpg": "5", "Birds/202/b{0-3}.jpg": "202", "Birds/203/c{0-3}.jpg": "203"},
        chosen="class_depth = 2",
        written='images = "FOLDER"\nclass_depth = 2\ntest_share = 0.3',
    ),
    Layout(
        "Intel Image Classification",
        train={"seg_train/seg_train/forest/{1-4}.jpg": "forest", "seg_train/seg_train/sea/{5-8}.jpg": "sea"},
        test={"seg_test/seg_test/forest/{11-12}.jpg": "forest", "seg_test/seg_test/sea/{15-16}.jpg": "sea"},
        others=("seg_pred/seg_pred/{20-22}.jpg",),
        written='images = "FOLDER"\ntrain = "seg_train/seg_train"\ntest = "seg_test/seg_test"',
    ),
    Layout(
        "Chest X-Ray Pneumonia of Kaggle",
        train={"train/NORMAL/a{1-4}.jpeg": "NORMAL", "train/PNEUMONIA/b{1-4}.jpeg": "PNEUMONIA"},
        test={"test/NORMAL/c{1-2}.jpeg": "NORMAL", "test/PNEUMONIA/d{1-2}.jpeg": "PNEUMONIA"},
        others=("val/NORMAL/e{1-2}.jpeg", "val/PNEUMONIA/f{1-2}.jpeg", "__MACOSX/train/NORMAL/._a1.jpeg"),
        written='images = "FOLDER"\ntrain = "train"\ntest = "test"',
    ),
    Layout(
        "Dogs vs. Cats of Kaggle",
        train={},
        others=("train/cat.{0-3}.jpg", "train/dog.{0-3}.jpg", "test1/{1-3}.jpg"),
        texts={"sampleSubmission.csv": "id,label\n" + lines("{1-3},0")},
        chosen="names of the files begin with 'cat', 'dog'",
    ),
    Layout(
        "Dog Breed Identification of Kaggle",
        train={"train/000b{0-3}.jpg": "boxer", "train/001c{0-3}.jpg": "dingo"},
        others=("test/00a{0-3}.jpg",),
        texts={
            "labels.csv": "id,breed\n" + lines("000b{0-3},boxer", "001c{0-3},dingo"),
            "sample_submission.csv": "id,boxer,dingo\n" + lines("00a{0-3},0.5,0.5"),
        },
        written='images = "FOLDER"\nlabels = "labels.csv"\ntest_share = 0.3',
    ),
    Layout(
        "APTOS 2019",
        train={"train_images/a{0-3}.png": "0", "train_images/b{0-3}.png": "4"},
        others=("test_images/c{0-3}.png",),
        texts={
            "train.csv": "id_code,diagnosis\n" + lines("a{0-3},0", "b{0-3},4"),
            "test.csv": "id_code\n" + lines("c{0-3}"),
            "sample_submission.csv": "id_code,diagnosis\n" + lines("c{0-3},0"),
        },
        written='images = "FOLDER"\nlabels = "train.csv"\ntest_share = 0.3',
    ),
    Layout(
        "Cassava Leaf Disease",
        train={"train_images/1{0-3}.jpg": "0", "train_images/2{0-3}.jpg": "3"},
        others=("test_images/30.jpg",),
        texts={
            "train.csv": "image_id,label\n" + lines("1{0-3}.jpg,0", "2{0-3}.jpg,3"),
            "sample_submission.csv": "image_id,label\n30.jpg,4\n",
            "label_num_to_disease_map.json": '{"0": "x"}',
        },
        written='images = "FOLDER"\nlabels = "train.csv"\ntest_share = 0.3',
    ),
    Layout(
        "Plant Pathology 2020",
        train={"images/Train_{0-3}.jpg": "healthy", "images/Train_{4-7}.jpg": "rust"},
        others=("images/Test_{0-3}.jpg",),
        texts={
            "train.csv": "image_id,healthy,multiple_diseases,rust\n" + lines("Train_{0-3},1,0,0", "Train_{4-7},0,0,1"),
            "test.csv": "image_id\n" + lines("Test_{0-3}"),
            "sample_submission.csv": "image_id,healthy,multiple_diseases,rust\n" + lines("Test_{0-3},0.25,0.25,0.25"),
        },
        written='images = "FOLDER"\nlabels = "train.csv"\ntest_share = 0.3',
    ),
    Layout(
        "Plant Pathology 2021",
        train={
            "train_images/a{0-3}.jpg": "scab",
            "train_images/b{0-3}.jpg": "rust",
            "train_images/c{0-3}.jpg": "complex",
        },
        others=("train_images/d{0-3}.jpg", "train_images/e{0-3}.jpg", "test_images/f0.jpg"),
        texts={
            "train.csv": "image,labels\n"
            + lines("a{0-3}.jpg,scab", "b{0-3}.jpg,rust", "c{0-3}.jpg,complex")
            + lines("d{0-3}.jpg,scab rust", "e{0-3}.jpg,rust complex"),
            "sample_submission.csv": "image,labels\nf0.jpg,healthy\n",
        },
        written='images = "FOLDER"\nlabels = "train.csv"\ntest_share = 0.3',
    ),
    Layout(
        "ISIC 2019",
        train={
            "ISIC_2019_Training_Input/ISIC_{0000-0003}.jpg": "MEL",
            "ISIC_2019_Training_Input/ISIC_{0004-0007}.jpg": "NV",
        },
        texts={
            "ISIC_2019_Training_GroundTruth.csv": "image,MEL,NV,UNK\n"
            + lines("ISIC_{0000-0003},1.0,0.0,0.0", "ISIC_{0004-0007},0.0,1.0,0.0"),
            "ISIC_2019_Training_Metadata.csv": "image,age_approx,anatom_site_general,lesion_id,sex\n"
            + lines("ISIC_{0000-0007},55.0,anterior torso,,female"),
        },
        written='images = "FOLDER"\nlabels = "ISIC_2019_Training_GroundTruth.csv"\ntest_share = 0.3',
    ),
    Layout(
        "CIFAR-10 of Kaggle",
        train={"train/{1-4}.png": "frog", "train/{5-8}.png": "truck"},
        others=("test/{1-9}.png",),
        texts={
            "trainLabels.csv": "id,label\n" + lines("{1-4},frog", "{5-8},truck"),
            "sampleSubmission.csv": "id,label\n" + lines("{1-9},cat"),
        },
        written='images = "FOLDER"\nlabels = "trainLabels.csv"\npath_column = "train/{id}"\ntest_share = 0.3',
    ),
    Layout(
        "Hugging Face, metadata.csv in a flat folder",
        train={"{0-3}.png": "cat", "{4-7}.png": "dog"},
        texts={"metadata.csv": "file_name,label\n" + lines("{0-3}.png,cat", "{4-7}.png,dog")},
        written='images = "FOLDER"\nlabels = "metadata.csv"\ntest_share = 0.3',
    ),
    Layout(
        "Hugging Face, metadata.jsonl in each split",
        train={"train/{0-3}.png": "cat", "train/{4-7}.png": "dog"},
        test={"test/{0-1}.png": "dog", "test/{2-3}.png": "cat"},
        texts={
            "train/metadata.jsonl": "".join(
                f'{{"file_name": "{i}.png", "label": "{"cat" if i < 4 else "dog"}"}}\n' for i in range(8)
            ),
            "test/metadata.jsonl": "".join(
                f'{{"file_name": "{i}.png", "label": "{"dog" if i < 2 else "cat"}"}}\n' for i in range(4)
            ),
        },
        written='images = "FOLDER"\nlabels = ["train/metadata.jsonl", "test/metadata.jsonl"]\n'
        'train = "train"\ntest = "test"',
    ),
    Layout(
        "MIT Indoor 67",
        train={"Images/kitchen/int{1-3}.jpg": "kitchen", "Images/bar/bar_{1-3}.jpg": "bar"},
        test={"Images/kitchen/int{4-5}.jpg": "kitchen", "Images/bar/bar_{4-5}.jpg": "bar"},
        texts={
            "TrainImages.txt": lines("kitchen/int{1-3}.jpg", "bar/bar_{1-3}.jpg"),
            "TestImages.txt": lines("kitchen/int{4-5}.jpg", "bar/bar_{4-5}.jpg"),
        },
        written='images = "FOLDER"\nclass_depth = 2\ntrain = "TrainImages.txt"\ntest = "TestImages.txt"',
    ),
    Layout(
        "Oxford 102 Flowers",
        train={},
        others=("jpg/image_{00001-00004}.jpg",),
        texts={"imagelabels.mat": "x", "setid.mat": "x"},
        chosen=r"imagelabels\.mat",
    ),
    Layout(
        "CelebA of Kaggle",
        train={
            "img_align_celeba/img_align_celeba/{000001-000003}.jpg": "1",
            "img_align_celeba/img_align_celeba/{000004-000006}.jpg": "-1",
        },
        test={
            "img_align_celeba/img_align_celeba/{000007-000008}.jpg": "1",
            "img_align_celeba/img_align_celeba/{000009-000010}.jpg": "-1",
        },
        texts={
            "list_attr_celeba.csv": "image_id,Male,Smiling\n"
            + lines(
                "{000001-000003}.jpg,1,1",
                "{000004-000006}.jpg,1,-1",
                "{000007-000008}.jpg,-1,1",
                "{000009-000010}.jpg,-1,-1",
            ),
            "list_eval_partition.csv": "image_id,partition\n" + lines("{000001-000006}.jpg,0", "{000007-000010}.jpg,2"),
            "list_bbox_celeba.csv": "image_id,x_1,y_1,width,height\n" + lines("{000001-000010}.jpg,95,71,226,313"),
        },
        chosen="label_column",
        written='images = "FOLDER"\nlabels = ["list_attr_celeba.csv", "list_eval_partition.csv"]\n'
        'label_column = "Smiling"\nsplit_column = "partition"\ntrain = "0"\ntest = "2"',
    ),
    Layout(
        "CelebA",
        train={"img_align_celeba/{000001-000003}.jpg": "1", "img_align_celeba/{000004-000006}.jpg": "-1"},
        test={"img_align_celeba/{000007-000008}.jpg": "1", "img_align_celeba/{000009-000010}.jpg": "-1"},
        texts={
            "list_attr_celeba.txt": "10\nMale Smiling \n"
            + lines(
                "{000001-000003}.jpg  1  1",
                "{000004-000006}.jpg  1 -1",
                "{000007-000008}.jpg -1  1",
                "{000009-000010}.jpg -1 -1",
            ),
            "list_eval_partition.txt": lines("{000001-000006}.jpg 0", "{000007-000010}.jpg 2"),
        },
        chosen="list_attr_celeba.txt has the columns 'filename', 'Male', 'Smiling', .* write .* label_column",
        written='images = "FOLDER"\nlabels = ["list_attr_celeba.txt", "list_eval_partition.txt"]\n'
        'label_column = "Smiling"\nsplit_column = "list_eval_partition.txt"\ntrain = "0"\ntest = "2"',
    ),
    Layout(
        "DeepFashion, categories",
        train={
            "img/Sheer_Blouse/img_{00000001-00000003}.jpg": "3",
            "img/Blue_Dress/img_{00000001-00000003}.jpg": "41",
            "img/Wrap_Dress/img_{00000001-00000003}.jpg": "41",
        },
        test={
            "img/Sheer_Blouse/img_{00000004-00000005}.jpg": "3",
            "img/Blue_Dress/img_{00000004-00000005}.jpg": "41",
            "img/Wrap_Dress/img_{00000004-00000005}.jpg": "41",
        },
        texts={
            "Anno_coarse/list_category_img.txt": "15\nimage_name  category_label\n"
            + lines("img/Sheer_Blouse/img_{00000001-00000005}.jpg    3")
            + lines(
                "img/Blue_Dress/img_{00000001-00000005}.jpg    41", "img/Wrap_Dress/img_{00000001-00000005}.jpg   41"
            ),
            "Eval/list_eval_partition.txt": "15\nimage_name  evaluation_status\n"
            + "".join(
                lines(
                    f"img/{item}/img_{{00000001-00000003}}.jpg train", f"img/{item}/img_{{00000004-00000005}}.jpg test"
                )
                for item in ("Sheer_Blouse", "Blue_Dress", "Wrap_Dress")
            ),
        },
        written='images = "FOLDER"\nlabels = ["Anno_coarse/list_category_img.txt", "Eval/list_eval_partition.txt"]\n'
        'path_column = "image_name"\nlabel_column = "category_label"\nsplit_column = "evaluation_status"\n'
        'train = "train"\ntest = "test"',
    ),
    Layout(
        "DomainNet",
        train={"clipart/ant/clipart_001_{0-2}.jpg": "ant", "clipart/bat/clipart_002_{0-2}.jpg": "bat"},
        test={"clipart/ant/clipart_001_{3-4}.jpg": "ant", "clipart/bat/clipart_002_{3-4}.jpg": "bat"},
        others=("sketch/ant/sketch_001_{0-4}.jpg", "sketch/bat/sketch_002_{0-4}.jpg"),
        texts={
            f"{domain}_{split}.txt": lines(
                f"{domain}/ant/{domain}_001_{{{numbers}}}.jpg 0", f"{domain}/bat/{domain}_002_{{{numbers}}}.jpg 1"
            )
            for domain in ("clipart", "sketch")
            for split, numbers in (("train", "0-2"), ("test", "3-4"))
        },
        chosen="name images of the folder 'clipart' alone; .* write class_depth = 2, train = \"clipart_train.txt\" and",
        written='images = "FOLDER"\nclass_depth = 2\ntrain = "clipart_train.txt"\ntest = "clipart_test.txt"',
    ),
    Layout(
        "Places365",
        train={"data_256/a/abbey/{00000001-00000004}.jpg": "0", "data_256/b/bank/outdoor/{00000001-00000004}.jpg": "1"},
        test={
            "val_256/Places365_val_{00000001-00000002}.jpg": "1",
            "val_256/Places365_val_{00000003-00000004}.jpg": "0",
        },
        others=("test_256/Places365_test_{00000001-00000003}.jpg",),
        texts={
            "places365_train_standard.txt": lines(
                "/a/abbey/{00000001-00000004}.jpg 0", "/b/bank/outdoor/{00000001-00000004}.jpg 1"
            ),
            "places365_val.txt": lines(
                "Places365_val_{00000001-00000002}.jpg 1", "Places365_val_{00000003-00000004}.jpg 0"
            ),
            "places365_test.txt": lines("Places365_test_{00000001-00000003}.jpg"),
            "categories_places365.txt": "/a/abbey 0\n/b/bank/outdoor 1\n",
        },
        chosen=r"'places365_val.txt' labels 4 other images by the same classes, .* write labels = \[\"places365_train_",
        written='images = "FOLDER"\nlabels = ["places365_train_standard.txt", "places365_val.txt"]\n'
        'train = "places365_train_standard.txt"\ntest = "places365_val.txt"',
    ),
    Layout(
        "CT scans, a folder for each patient",
        train={},
        others=("P{01-04}/slice_1.png", "P{01-04}/slice_2.png"),
        texts={"patients.csv": "patient_id,diagnosis,age\n" + lines("P{01-02},AD,70", "P{03-04},CN,71")},
        chosen="patients.csv has the columns .*, but none names an image such as 'P01/slice_1.png'; write each image's",
    ),
    Layout(
        "COVID-CT",
        train={},
        others=("Images-processed/CT_COVID/a{0-5}.png", "Images-processed/CT_NonCOVID/b{0-5}.png"),
        texts={
            "Data-split/COVID/trainCT_COVID.txt": lines("a{0-3}.png"),
            "Data-split/COVID/testCT_COVID.txt": lines("a{4-5}.png"),
            "Data-split/NonCOVID/trainCT_NonCOVID.txt": lines("b{0-3}.png"),
            "Data-split/NonCOVID/testCT_NonCOVID.txt": lines("b{4-5}.png"),
        },
        chosen="name images of the folder 'CT_COVID' alone; join the lists of all classes in train.txt and test.txt$",
    ),
    Layout(
        "CompCars",
        train={"image/1/10/2010/{0-2}.jpg": "10", "image/1/11/2010/{3-5}.jpg": "11", "image/78/3/2012/{6-8}.jpg": "3"},
        test={"image/1/10/2011/{0-1}.jpg": "10", "image/1/11/2010/{6-7}.jpg": "11", "image/78/3/2012/{0-1}.jpg": "3"},
        texts={
            "train_test_split/classification/train.txt": lines(
                "1/10/2010/{0-2}.jpg", "1/11/2010/{3-5}.jpg", "78/3/2012/{6-8}.jpg"
            ),
            "train_test_split/classification/test.txt": lines(
                "1/10/2011/{0-1}.jpg", "1/11/2010/{6-7}.jpg", "78/3/2012/{0-1}.jpg"
            ),
        },
        chosen="the class '1' holds subfolders: '10', '11', .* if these are the classes, write class_depth = 3",
        written='images = "FOLDER"\nclass_depth = 3\ntrain = "train_test_split/classification/train.txt"\n'
        'test = "train_test_split/classification/test.txt"',
    ),
    Layout(
        "UCF101 as frames",
        train={},
        others=("frames/Archery/v_Archery_g0{1-4}_c01/1.jpg", "frames/Bowling/v_Bowling_g0{1-4}_c01/1.jpg"),
        texts={
            "trainlist01.txt": "Archery/v_Archery_g02_c01.avi 1\n",
            "testlist01.txt": "Archery/v_Archery_g01_c01.avi\n",
        },
        chosen="'v_Archery_g02_c01', .* if each holds one video, .* name splits, train and test, that keep it together",
    ),
    Layout(
        "Birdsnap",
        train={},
        others=("images/Acorn_Woodpecker/{0-5}.jpg", "images/Anhinga/{0-5}.jpg"),
        texts={"test_images.txt": "path\n" + lines("Acorn_Woodpecker/{4-5}.jpg", "Anhinga/{4-5}.jpg")},
        chosen="not used: 'test_images.txt', with names of some of the images; test images are drawn at random",
    ),
    Layout(
        "Office-Home",
        train={
            "Art/Alarm_Clock/{00001-00002}.jpg": "Alarm_Clock",
            "Art/Backpack/{00001-00002}.jpg": "Backpack",
            "Clipart/Alarm_Clock/{00001-00002}.jpg": "Alarm_Clock",
            "Clipart/Backpack/{00001-00002}.jpg": "Backpack",
            "Product/Alarm_Clock/{00001-00002}.jpg": "Alarm_Clock",
            "Product/Backpack/{00001-00002}.jpg": "Backpack",
        },
        chosen="class_depth = 2",
        written='images = "FOLDER"\nclass_depth = 2\ntest_share = 0.3',
    ),
    Layout(
        "IDRiD, grading",
        train={
            "B. Disease Grading/1. Original Images/a. Training Set/IDRiD_{001-004}.jpg": "0",
            "B. Disease Grading/1. Original Images/a. Training Set/IDRiD_{005-008}.jpg": "3",
        },
        test={
            "B. Disease Grading/1. Original Images/b. Testing Set/IDRiD_{001-002}.jpg": "0",
            "B. Disease Grading/1. Original Images/b. Testing Set/IDRiD_{003-004}.jpg": "3",
        },
        texts={
            "B. Disease Grading/2. Groundtruths/a. IDRiD_Disease Grading_Training Labels.csv": (
                "Image name,Retinopathy grade,Risk of macular edema ,,,\n"
                + lines("IDRiD_{001-004},0,0,,,", "IDRiD_{005-008},3,2,,,")
            ),
            "B. Disease Grading/2. Groundtruths/b. IDRiD_Disease Grading_Testing Labels.csv": (
                "Image name,Retinopathy grade,Risk of macular edema \n"
                + lines("IDRiD_{001-002},0,0", "IDRiD_{003-004},3,1")
            ),
        },
        chosen="'a. Training Set', 'b. Testing Set' are named like splits .* label_column = ",
        written='images = "FOLDER/B. Disease Grading"\n'
        'labels = "2. Groundtruths/*. IDRiD_Disease Grading_*ing Labels.csv"\nlabel_column = "Retinopathy grade"\n'
        'train = "1. Original Images/a. Training Set"\ntest = "1. Original Images/b. Testing Set"',
    ),
    Layout(
        "Office-31",
        train={
            f"{domain}/images/{name}/frame_{{0001-0004}}.jpg": name
            for domain in ("amazon", "dslr", "webcam")
            for name in ("bike", "mug")
        },
        chosen="class_depth = 3",
        written='images = "FOLDER"\nclass_depth = 3\ntest_share = 0.3',
    ),
    Layout(
        "LC25000",
        train={
            "colon_image_sets/colon_aca/colonca{1-4}.jpeg": "colon_aca",
            "colon_image_sets/colon_n/colonn{1-4}.jpeg": "colon_n",
            "lung_image_sets/lung_aca/lungaca{1-4}.jpeg": "lung_aca",
            "lung_image_sets/lung_n/lungn{1-4}.jpeg": "lung_n",
        },
        chosen="class_depth = 2",
        written='images = "FOLDER"\nclass_depth = 2\ntest_share = 0.3',
    ),
    Layout(
        "BreakHis",
        train={
            "histology_slides/breast/benign/SOB/adenosis/SOB_B_A_14-1/40X/a{1-4}.png": "benign",
            "histology_slides/breast/malignant/SOB/ductal/SOB_M_D_14-2/40X/b{1-4}.png": "malignant",
        },
        texts={"histology_slides/breast/count_files.sh": "x"},
        written='images = "FOLDER/histology_slides/breast"\ntest_share = 0.3',
    ),
    Layout(
        "Blood cells (BCCD) of Kaggle",
        train={
            "images/TRAIN/EOSINOPHIL/_{0-3}.jpeg": "EOSINOPHIL",
            "images/TRAIN/NEUTROPHIL/_{4-7}.jpeg": "NEUTROPHIL",
        },
        test={
            "images/TEST/EOSINOPHIL/_{10-11}.jpeg": "EOSINOPHIL",
            "images/TEST/NEUTROPHIL/_{14-15}.jpeg": "NEUTROPHIL",
        },
        others=("images/TEST_SIMPLE/EOSINOPHIL/_{20-21}.jpeg", "images/TEST_SIMPLE/NEUTROPHIL/_{22-23}.jpeg"),
        texts={"labels.csv": ",Image,Category\n0,0,NEUTROPHIL\n1,1,EOSINOPHIL\n"},
        written='images = "FOLDER/images"\ntrain = "TRAIN"\ntest = "TEST"',
    ),
    Layout(
        "RAF-DB of Kaggle",
        train={"DATASET/train/1/train_{1-4}.jpg": "1", "DATASET/train/2/train_{5-8}.jpg": "2"},
        test={"DATASET/test/1/test_{1-2}.jpg": "1", "DATASET/test/2/test_{3-4}.jpg": "2"},
        texts={
            "train_labels.csv": "image,label\n" + lines("train_{1-4}.jpg,1", "train_{5-8}.jpg,2"),
            "test_labels.csv": "image,label\n" + lines("test_{1-2}.jpg,1", "test_{3-4}.jpg,2"),
        },
        written='images = "FOLDER/DATASET"\ntrain = "train"\ntest = "test"',
    ),
    Layout(
        "MNIST as PNG",
        train={"training/3/{1-4}.png": "3", "training/7/{5-8}.png": "7"},
        test={"testing/3/{1-2}.png": "3", "testing/7/{3-4}.png": "7"},
        written='images = "FOLDER"\ntrain = "training"\ntest = "testing"',
    ),
    Layout(
        "Fruits-360",
        train={"Training/Apple 6/{0-3}_100.jpg": "Apple 6", "Training/Banana 1/{0-3}_100.jpg": "Banana 1"},
        test={"Test/Apple 6/{4-5}_100.jpg": "Apple 6", "Test/Banana 1/{4-5}_100.jpg": "Banana 1"},
        others=("test-multiple_images-fruit/apple{1-2}.jpg",),
        written='images = "FOLDER"\ntrain = "Training"\ntest = "Test"',
    ),
    Layout(
        "LFW",
        train={"Aaron_Eckhart/Aaron_Eckhart_{0001-0004}.jpg": "Aaron_Eckhart", "Zico/Zico_{0001-0004}.jpg": "Zico"},
        written='images = "FOLDER"\ntest_share = 0.3',
    ),
    Layout(
        "LIMUC",
        train={
            "train_and_validation_sets/Mayo 0/UC_patient_1_{1-4}.bmp": "Mayo 0",
            "train_and_validation_sets/Mayo 3/UC_patient_2_{1-4}.bmp": "Mayo 3",
        },
        test={"test_set/Mayo 0/UC_patient_3_{1-2}.bmp": "Mayo 0", "test_set/Mayo 3/UC_patient_4_{1-2}.bmp": "Mayo 3"},
        written='images = "FOLDER"\ntrain = "train_and_validation_sets"\ntest = "test_set"',
    ),
    Layout(
        "MNIST as JPG of Kaggle",
        train={"trainingSet/trainingSet/0/img_{1-4}.jpg": "0", "trainingSet/trainingSet/1/img_{5-8}.jpg": "1"},
        others=(
            "trainingSample/trainingSample/0/img_{1-2}.jpg",
            "trainingSample/trainingSample/1/img_{5-6}.jpg",
            "testSet/testSet/img_{1-4}.jpg",
            "testSample/img_{1-2}.jpg",
        ),
        written='images = "FOLDER/trainingSet/trainingSet"\ntest_share = 0.3',
    ),
    Layout(
        "Malaria of Kaggle",
        train={
            "cell_images/Parasitized/a_{1-4}.png": "Parasitized",
            "cell_images/Uninfected/b_{1-4}.png": "Uninfected",
        },
        others=("cell_images/cell_images/Parasitized/a_{1-4}.png", "cell_images/cell_images/Uninfected/b_{1-4}.png"),
        written='images = "FOLDER/cell_images"\nleave_out = ["cell_images"]\ntest_share = 0.3',
    ),
    Layout(
        "Br35H",
        train={"no/no{1-4}.jpg": "no", "yes/y{1-4}.jpg": "yes"},
        others=("pred/pred{1-4}.jpg",),
        chosen=r"names of splits, parts or items: 'pred'; .*; to leave them out, leave_out = \[NAMES\]",
        written='images = "FOLDER"\nleave_out = ["pred"]\ntest_share = 0.3',
    ),
    Layout(
        "Casting products of Kaggle",
        train={
            "casting_data/casting_data/train/def_front/cast_def_0_{1-4}.jpeg": "def_front",
            "casting_data/casting_data/train/ok_front/cast_ok_0_{1-4}.jpeg": "ok_front",
        },
        test={
            "casting_data/casting_data/test/def_front/cast_def_1_{1-2}.jpeg": "def_front",
            "casting_data/casting_data/test/ok_front/cast_ok_1_{1-2}.jpeg": "ok_front",
        },
        others=(
            "casting_512x512/casting_512x512/def_front/{1-2}.jpeg",
            "casting_512x512/casting_512x512/ok_front/{3-4}.jpeg",
        ),
        chosen="'casting_data/casting_data' holds the folders 'train' and 'test', .* name .*/casting_data if",
        written='images = "FOLDER/casting_data/casting_data"\ntrain = "train"\ntest = "test"',
    ),
    Layout(
        "New Plant Diseases of Kaggle",
        train={"NPDD/NPDD/train/scab/{0-3}.JPG": "scab", "NPDD/NPDD/train/rot/{4-7}.JPG": "rot"},
        test={"NPDD/NPDD/valid/scab/{10-11}.JPG": "scab", "NPDD/NPDD/valid/rot/{14-15}.JPG": "rot"},
        others=("test/test/AppleScab{1-3}.JPG",),
        chosen="'NPDD/NPDD' holds the folders 'train' and 'valid', beside other folders; name .*/NPDD/NPDD if",
        written='images = "FOLDER/NPDD/NPDD"\ntrain = "train"\ntest = "valid"',
    ),
    Layout(
        "Chinese traffic signs (TSRD)",
        train={"tsrd-train/000_{0001-0004}.png": "0", "tsrd-train/001_{0001-0004}.png": "1"},
        test={"TSRD-Test/000_1_{0001-0002}_1_j.png": "0", "TSRD-Test/001_1_{0001-0002}_1_j.png": "1"},
        texts={
            "TsignRecgTrain4170Annotation.txt": lines(
                *(
                    f"00{sign}_{n:04}.png;{134 + n // 3};128;19;7;120;117;{sign};"
                    for sign in (0, 1)
                    for n in (1, 2, 3, 4)
                ),
            ),
            "TsignRecgTest1994Annotation.txt": lines(
                "000_1_{0001-0002}_1_j.png;134;128;19;7;120;117;0;", "001_1_{0001-0002}_1_j.png;135;128;19;7;120;117;1;"
            ),
        },
        chosen="column '2' of .*, which has no column names; '8' could have the labels, too; .* label_column = \"8\"",
        written='images = "FOLDER"\nlabels = ["TsignRecgTrain4170Annotation.txt", "TsignRecgTest1994Annotation.txt"]\n'
        'label_column = "8"\ntrain = "tsrd-train"\ntest = "TSRD-Test"',
    ),
    Layout(
        "VireoFood-172",
        train={"ready_chinese_food/1/1_{0-3}.jpg": "1", "ready_chinese_food/2/1_{0-3}.jpg": "2"},
        test={"ready_chinese_food/1/2_{0-1}.jpg": "1", "ready_chinese_food/2/2_{0-1}.jpg": "2"},
        texts={
            "SplitAndIngreLabel/TR.txt": lines("/1/1_{0-3}.jpg", "/2/1_{0-3}.jpg"),
            "SplitAndIngreLabel/TE.txt": lines("/1/2_{0-1}.jpg", "/2/2_{0-1}.jpg"),
        },
        chosen="not used: 'SplitAndIngreLabel/TE.txt', 'SplitAndIngreLabel/TR.txt', with names of some of the images",
        written='images = "FOLDER"\nclass_depth = 2\ntrain = "SplitAndIngreLabel/TR.txt"\n'
        'test = "SplitAndIngreLabel/TE.txt"',
    ),
    Layout(
        "Derm7pt",
        train={f"images/A{n}/Aal{n}.jpg": ("nevus", "melanoma")[n % 2] for n in range(8)},
        texts={
            "meta/meta.csv": "case_num,diagnosis,score,derm\n"
            + "".join(f"{n},{('nevus', 'melanoma')[n % 2]},0,A{n}/Aal{n}.jpg\n" for n in range(8)),
            "meta/train_indexes.csv": "indexes\n0\n1\n2\n3\n",
            "meta/test_indexes.csv": "indexes\n4\n5\n6\n7\n",
        },
        chosen="splits may be in 'meta/test_indexes.csv', 'meta/train_indexes.csv', which roarbench cannot read",
        written='images = "FOLDER"\nlabels = "meta/meta.csv"\ntest_share = 0.3',
    ),
    Layout(
        "ESC-50 as spectrograms",
        train={"spectrograms/1-1003{0-3}-A-0.png": "0", "spectrograms/1-2003{0-3}-A-5.png": "5"},
        texts={
            "esc50.csv": "filename,fold,target,category,esc10,src_file,take\n"
            + lines("1-1003{0-3}-A-0.wav,1,0,dog,True,10032,A", "1-2003{0-3}-A-5.wav,1,5,cat,True,20032,A")
        },
        written='images = "FOLDER"\nlabels = "esc50.csv"\ntest_share = 0.3',
    ),
    Layout(
        "RxRx1",
        train={
            "images/HEPG2-01/Plate1/B0{2-5}_s1_w1.png": "s100",
            "images/HUVEC-01/Plate1/B0{2-5}_s1_w1.png": "s200",
        },
        texts={
            "metadata.csv": "site_id,cell_type,dataset,experiment,plate,well,site,sirna\n"
            + lines("x,HEPG2,test,HEPG2-01,1,B0{2-5},1,s100", "y,HUVEC,train,HUVEC-01,1,B0{2-5},1,s200")
        },
        chosen="metadata.csv has the columns .*, but none names an image such as .* path_column of several columns",
        written='images = "FOLDER"\nlabels = "metadata.csv"\nlabel_column = "sirna"\n'
        'path_column = "{experiment}/Plate{plate}/{well}_s{site}_w1"\ntest_share = 0.3',
    ),
    Layout(
        "MIAS of Kaggle",
        train={"all-mias/mdb00{1-4}.pgm": "CIRC", "all-mias/mdb00{5-8}.pgm": "NORM"},
        texts={
            "all-mias/Info.txt": "REFNUM BG CLASS SEVERITY X Y RADIUS \n"
            + lines("mdb00{1-4} G CIRC B 535 425 197", "mdb00{5-8} D NORM ")
        },
        written='images = "FOLDER/all-mias"\nlabels = "Info.txt"\nlabel_column = "CLASS"\ntest_share = 0.3',
    ),
    Layout(
        "UBC-OCEAN",
        train={"train_images/{4-7}.png": "HGSC", "train_images/{20-23}.png": "CC"},
        others=("train_thumbnails/{4-7}_thumbnail.png", "test_images/41.png", "test_thumbnails/41_thumbnail.png"),
        texts={
            "train.csv": "image_id,label,image_width,image_height,is_tma\n"
            + lines("{4-7},HGSC,23785,20008,False", "{20-22},CC,100,200,False", "23,CC,3000,3000,True"),
            "test.csv": "image_id,image_width,image_height\n41,28469,16987\n",
        },
        chosen="images of 'test_thumbnails' have the names of other images; if they are thumbnails, move them",
        written='images = "FOLDER"\nlabels = "train.csv"\ntest_share = 0.3',
    ),
    Layout(
        "VLCS",
        train={f"{source}/train/{n}/a{{0-3}}.jpg": str(n) for source in ("CALTECH", "SUN") for n in range(2)},
        test={f"{source}/test/{n}/b{{0-1}}.jpg": str(n) for source in ("CALTECH", "SUN") for n in range(2)},
        chosen='train = "\\*/train" and test = "\\*/test" .* and class_depth = 3, too, if folders such as '
        "'CALTECH/train/0' are",
        written='images = "FOLDER"\ntrain = "*/train"\ntest = "*/test"\nclass_depth = 3',
    ),
    Layout(
        "Waterbirds",
        train={"001.Albatross/A_{0-3}.jpg": "0", "002.Wren/B_{0-3}.jpg": "1", "003.Owl/C_{0-3}.jpg": "1"},
        test={"001.Albatross/A_{6-7}.jpg": "0", "002.Wren/B_{6-7}.jpg": "1", "003.Owl/C_{6-7}.jpg": "1"},
        others=("001.Albatross/A_{4-5}.jpg", "002.Wren/B_{4-5}.jpg", "003.Owl/C_{4-5}.jpg"),
        texts={
            "metadata.csv": "img_id,img_filename,y,split,place,place_filename\n"
            + "".join(
                f"{n},{name}_{n}.jpg,{y},{n // 2 - n // 4 if n > 3 else 0},{n % 2},/o/ocean/{n}.jpg\n"
                for name, y in (("001.Albatross/A", 0), ("002.Wren/B", 1), ("003.Owl/C", 1))
                for n in range(8)
            )
        },
        chosen="column 'split' of metadata.csv .*; to use it, write labels = \"metadata.csv\", split_column",
        written='images = "FOLDER"\nlabels = "metadata.csv"\nsplit_column = "split"\ntrain = "0"\ntest = "2"',
    ),
    Layout(
        "BTAD",
        train={f"{item}/test/{name}/{{0000-0003}}.bmp": name for item in ("01", "02") for name in ("ok", "ko")},
        others=tuple(
            f"{item}/{folder}.bmp"
            for item in ("01", "02")
            for folder in ("train/ok/{0000-0003}", "ground_truth/ko/{0000-0003}")
        ),
        chosen="'01', '02' each hold the folders 'train' and 'test'; if folders such as '01/test/ko' are classes, "
        r'write class_depth = 3, leave_out = \["ground_truth", "train"\] and test_share = 0\.3, or name one',
        written='images = "FOLDER"\nleave_out = ["train", "ground_truth"]\nclass_depth = 3\ntest_share = 0.3',
    ),
    Layout(
        "BTAD, one product",
        train={"test/ok/{0000-0003}.bmp": "ok", "test/ko/{0000-0003}.bmp": "ko"},
        others=("train/ok/{0000-0003}.bmp", "ground_truth/ko/{0000-0003}.bmp"),
        chosen="only the folder 'ok' in 'train' holds images; name the folder 'test' if 'ko', 'ok' inside it are the",
        written='images = "FOLDER/test"\ntest_share = 0.3',
    ),
    Layout(
        "OCT2017 of Kaggle",
        train={"OCT2017 /train/CNV/CNV-1-{1-4}.jpeg": "CNV", "OCT2017 /train/NORMAL/NORMAL-1-{1-4}.jpeg": "NORMAL"},
        test={"OCT2017 /test/CNV/CNV-2-{1-2}.jpeg": "CNV", "OCT2017 /test/NORMAL/NORMAL-2-{1-2}.jpeg": "NORMAL"},
        others=(
            "OCT2017 /val/CNV/CNV-3-{1-2}.jpeg",
            "OCT2017 /val/NORMAL/NORMAL-3-{1-2}.jpeg",
            "oct2017/OCT2017 /train/CNV/CNV-1-{1-4}.jpeg",
            "oct2017/OCT2017 /train/NORMAL/NORMAL-1-{1-4}.jpeg",
        ),
        chosen="name '.*/OCT2017 ' if it is the data set",
        written='images = "FOLDER/OCT2017 "\ntrain = "train"\ntest = "test"',
    ),
    Layout(
        "PAD-UFES-20",
        train={f"images/imgs_part_{1 + n % 3}/PAT_{n}_{n}_{n}.png": ("NEV", "BCC")[n % 2] for n in range(12)},
        texts={
            "metadata.csv": "patient_id,lesion_id,age,region,diagnostic,itch,img_id,biopsed\n"
            + "".join(f"PAT_{n},{n},8,ARM,{('NEV', 'BCC')[n % 2]},FALSE,PAT_{n}_{n}_{n}.png,FALSE\n" for n in range(12))
        },
        written='images = "FOLDER"\nlabels = "metadata.csv"\ntest_share = 0.3',
    ),
    Layout(
        "ImageNet-LT",
        train={
            "train/n01440764/n01440764_{0-3}.JPEG": "n01440764",
            "train/n01443537/n01443537_{0-3}.JPEG": "n01443537",
        },
        test={"val/n01440764/v{0-1}.JPEG": "n01440764", "val/n01443537/w{0-1}.JPEG": "n01443537"},
        others=("train/n01440764/n01440764_{4-7}.JPEG", "train/n01443537/n01443537_{4-7}.JPEG"),
        texts={
            "ImageNet_LT_train.txt": lines(
                "train/n01440764/n01440764_{0-3}.JPEG 0", "train/n01443537/n01443537_{0-3}.JPEG 1"
            ),
            "ImageNet_LT_test.txt": lines("val/n01440764/v{0-1}.JPEG 0", "val/n01443537/w{0-1}.JPEG 1"),
        },
        chosen="splits are the folders 'train', 'val'; the lists .*, write images = .*, class_depth = 2, train = ",
        written='images = "FOLDER"\nclass_depth = 2\ntrain = "ImageNet_LT_train.txt"\ntest = "ImageNet_LT_test.txt"',
    ),
]
