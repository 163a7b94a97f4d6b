"""The words of the demo's language, Chinese beside English."""

from tfm_cli.demo.words import Activity, Adjective, Noun, Place, Pronoun, Transitive, Verb

PRONOUNS = (
    Pronoun("我", "I", "me", "my", "I"),
    Pronoun("你", "you", "you", "your", "they"),
    Pronoun("他", "he", "him", "his", "he"),
    Pronoun("她", "she", "her", "her", "he"),
    Pronoun("我们", "we", "us", "our", "they"),
    Pronoun("他们", "they", "them", "their", "they"),
)
MEN = (("小明", "Xiaoming"), ("大卫", "David"), ("汤姆", "Tom"))
WOMEN = (("小红", "Xiaohong"), ("安娜", "Anna"), ("玛丽", "Mary"))
BROTHERS = (("哥哥", "older brother"), ("弟弟", "younger brother"), ("爸爸", "father"))
SISTERS = (("姐姐", "older sister"), ("妹妹", "younger sister"), ("妈妈", "mother"))

JOBS = (
    Noun("学生", "student", "个", "job"),
    Noun("老师", "teacher", "位", "job"),
    Noun("医生", "doctor", "位", "job fame"),
    Noun("作家", "writer", "位", "job fame"),
    Noun("歌手", "singer", "位", "job fame"),
    Noun("司机", "driver", "位", "job"),
    Noun("警察", "police officer", "位", "job"),
)
RELATIONS = (
    Noun("朋友", "friend", "个"),
    Noun("老师", "teacher", "位"),
    Noun("同学", "classmate", "个"),
    Noun("邻居", "neighbor", "个"),
)
YOUNG = (Noun("孩子", "child", "个"), Noun("男孩", "boy", "个"), Noun("女孩", "girl", "个"))

NOUNS = (
    Noun("书", "book", "本", "read borrow buy desk print", generic=False),
    Noun("杂志", "magazine", "本", "read borrow buy desk print"),
    Noun("小说", "novel", "本", "read borrow buy desk print"),
    Noun("报纸", "newspaper", "份", "read buy desk print"),
    Noun("词典", "dictionary", "本", "borrow buy desk goods", generic=False),
    Noun("信", "letter", "封", "read write desk text formal"),
    Noun("文章", "article", "篇", "read write text formal"),
    Noun("故事", "story", "个", "write text"),
    Noun("电影", "movie", "部", "watch"),
    Noun("歌", "song", "首", "sing", generic=False),
    Noun("茶", "tea", "杯", "drink taste", "cup"),
    Noun("咖啡", "coffee", "杯", "drink taste", "cup"),
    Noun("水", "water", "杯", "drink", "glass"),
    Noun("牛奶", "milk", "杯", "drink taste", "glass"),
    Noun("果汁", "juice", "杯", "drink taste", "glass"),
    Noun("苹果", "apple", "个", "eat fruit desk"),
    Noun("橙子", "orange", "个", "eat fruit desk"),
    Noun("鸡蛋", "egg", "个", "eat desk"),
    Noun("面包", "bread", "块", "eat", "piece"),
    Noun("蛋糕", "cake", "块", "eat", "piece"),
    Noun("米饭", "rice", "碗", "eat", "bowl"),
    Noun("桌子", "table", "张", "buy room furniture"),
    Noun("椅子", "chair", "把", "buy room furniture repair seat"),
    Noun("床", "bed", "张", "buy furniture seat"),
    Noun("车", "car", "辆", "buy vehicle repair wash color", generic=False),
    Noun("自行车", "bicycle", "辆", "buy vehicle repair wash color borrow", generic=False),
    Noun("电脑", "computer", "台", "buy desk repair device room"),
    Noun("手机", "phone", "部", "buy desk repair device lose"),
    Noun("裤子", "pants", "条", "buy wear wash color", "pair"),
    Noun("毛衣", "sweater", "件", "buy wear wash color"),
    Noun("大衣", "coat", "件", "buy wear wash color"),
    Noun("衬衫", "shirt", "件", "buy wear wash color"),
    Noun("鞋", "shoes", "双", "buy wear wash color", "pair"),
    Noun("雨伞", "umbrella", "把", "buy borrow goods color lose"),
    Noun("包", "bag", "个", "buy desk goods color lose room"),
    Noun("杯子", "cup", "个", "buy desk goods wash color"),
    Noun("地图", "map", "张", "buy desk goods borrow"),
    Noun("照片", "photo", "张", "desk lose look"),
    Noun("花", "flower", "朵", "buy flower draw", generic=False),
    Noun("猫", "cat", "只", "animal draw lose"),
    Noun("狗", "dog", "只", "animal draw lose"),
    Noun("鸟", "bird", "只", "animal draw"),
    Noun("马", "horse", "匹", "draw horse"),
)
LANGUAGES = (("汉语", "Chinese"), ("英语", "English"), ("日语", "Japanese"), ("法语", "French"))
SUBJECTS = (*LANGUAGES, ("数学", "math"), ("历史", "history"), ("音乐", "music"), ("艺术", "art"))

BE = Verb("be", "was", "been")
GO = Verb("go", "went", "been")
HAVE = Verb("have", "had", "had")
LIKE = Verb("like", "liked", "liked")
NEED = Verb("need", "needed", "needed")
KNOW = Verb("know", "knew", "known")
WANT = Verb("want", "wanted", "wanted")
LIVE = Verb("live", "lived", "lived")
GIVE = Verb("give", "gave", "given")
PUT = Verb("put", "put", "put")
READ = Verb("read", "read", "read")
RAIN = Verb("rain", "rained", "rained")
STUDY = Verb("study", "studied", "studied")
TEACH = Verb("teach", "taught", "taught")
SPEAK = Verb("speak", "spoke", "spoken")
PLAY = Verb("play", "played", "played")
HELP = Verb("help", "helped", "helped")
WAIT = Verb("wait for", "waited for", "waited for")
MEET = Verb("meet", "met", "met")
CALL = Verb("call", "called", "called")
SEE = Verb("see", "saw", "seen")
DRAW = Verb("draw", "drew", "drawn")
LOOK = Verb("look for", "looked for", "looked for")
WORK = Verb("work", "worked", "worked")
EAT = Verb("eat", "ate", "eaten")
WATCH = Verb("watch", "watched", "watched")
SING = Verb("sing", "sang", "sung")
LISTEN = Verb("listen to", "listened to", "listened to")
DANCE = Verb("dance", "danced", "danced")
RUN = Verb("run", "ran", "run")
SWIM = Verb("swim", "swam", "swum")
GET_UP = Verb("get up", "got up", "got up")

TRANSITIVES = (
    Transitive("看", READ, "read", "图书馆 公园 家 教室", "read", asks_what=False),
    Transitive("看", WATCH, "watch", "家", "watch", asks_what=False, takes_owned=False),
    Transitive("写", Verb("write", "wrote", "written"), "write", "家 图书馆 教室 办公室", "text", takes_owned=False),
    Transitive("喝", Verb("drink", "drank", "drunk"), "drink", "家 咖啡馆 餐厅 办公室", "drink"),
    Transitive("吃", EAT, "eat", "家 餐厅 学校", "eat"),
    Transitive("买", Verb("buy", "bought", "bought"), "buy drink fruit", "商店", "drink fruit", takes_owned=False),
    Transitive("修", Verb("repair", "repaired", "repaired"), "repair", "家 学校"),
    Transitive("洗", Verb("wash", "washed", "washed"), "wash", "家"),
    Transitive("画", DRAW, "draw", "家 公园 教室", "animal"),
    Transitive("借", Verb("borrow", "borrowed", "borrowed"), "borrow", "学校 图书馆"),
    Transitive("唱", SING, "sing", "学校 家"),
    Transitive("听", LISTEN, "sing", "家 咖啡馆 公园"),
    Transitive("找", LOOK, "lose", "家 公园 学校"),
)
ACTIVITIES = (
    Activity("看书", READ, "", "图书馆 公园 家 教室 咖啡馆"),
    Activity("学习", STUDY, "", "图书馆 学校 家 教室 咖啡馆"),
    Activity("工作", WORK, "", "医院 银行 商店 办公室 学校 餐厅 机场"),
    Activity("跑步", RUN, "", "公园 学校"),
    Activity("游泳", SWIM, "", "学校", skill=True),
    Activity("跳舞", DANCE, "", "公园 家 学校", skill=True),
    Activity("唱歌", SING, "", "家 学校 公园", skill=True),
    Activity("做饭", Verb("cook", "cooked", "cooked"), "", "家 餐厅", skill=True),
    Activity("散步", Verb("take a walk", "took a walk", "taken a walk"), "", "公园"),
    Activity("聊天", Verb("chat", "chatted", "chatted"), "", "公园 咖啡馆 餐厅 办公室"),
    Activity("休息", Verb("rest", "rested", "rested"), "", "家 公园 办公室 咖啡馆"),
    Activity("看电视", WATCH, "TV", "家"),
    Activity("听音乐", LISTEN, "music", "家 公园 咖啡馆"),
    Activity("踢足球", PLAY, "soccer", "公园 学校", skill=True),
    Activity("打篮球", PLAY, "basketball", "公园 学校", skill=True),
    Activity("弹钢琴", PLAY, "the piano", "家 学校", skill=True),
    Activity("骑自行车", Verb("cycle", "cycled", "cycled"), "", "公园", skill=True),
    Activity("吃早饭", HAVE, "breakfast", "家 学校 餐厅 咖啡馆", part="早上"),
    Activity("吃晚饭", HAVE, "dinner", "家 学校 餐厅", part="晚上"),
)
ADJECTIVES = (
    Adjective("高", "", "tall", "taller", "person"),
    Adjective("聪明", "聪明的", "smart", "smarter", "person young"),
    Adjective("年轻", "年轻的", "young", "younger", "person job"),
    Adjective("友好", "友好的", "friendly", "friendlier", "person job"),
    Adjective("有名", "有名的", "famous", "more famous", "fame person"),
    Adjective("努力", "努力的", "hardworking", "more hardworking", "person"),
    Adjective("忙", "", "busy", "busier", "person state"),
    Adjective("累", "", "tired", "", "state"),
    Adjective("高兴", "", "happy", "happier", "person state"),
    Adjective("饿", "", "hungry", "", "state"),
    Adjective("贵", "", "expensive", "more expensive", "buy"),
    Adjective("便宜", "便宜的", "cheap", "cheaper", "buy"),
    Adjective("新", "新", "new", "newer", "furniture vehicle device wear print goods"),
    Adjective("旧", "旧", "old", "older", "furniture vehicle device wear print"),
    Adjective("大", "大", "big", "bigger", "furniture fruit animal"),
    Adjective("小", "小", "small", "smaller", "furniture fruit animal"),
    Adjective("漂亮", "漂亮的", "beautiful", "more beautiful", "wear flower look horse vehicle"),
    Adjective("有意思", "有意思的", "interesting", "more interesting", "print text watch"),
    Adjective("重要", "重要的", "important", "more important", "formal"),
    Adjective("好吃", "好吃的", "tasty", "tastier", "eat"),
    Adjective("好喝", "好喝的", "tasty", "tastier", "taste"),
    Adjective("可爱", "可爱的", "cute", "cuter", "animal"),
    Adjective("舒服", "舒服的", "comfortable", "more comfortable", "seat wear"),
)
COLORS = (("红色", "red"), ("蓝色", "blue"), ("黑色", "black"), ("白色", "white"), ("绿色", "green"))

PLACES = (
    Place("学校", "at school", "to school"),
    Place("图书馆", "at the library", "to the library"),
    Place("公园", "in the park", "to the park"),
    Place("商店", "at the store", "to the store"),
    Place("医院", "at the hospital", "to the hospital"),
    Place("银行", "at the bank", "to the bank"),
    Place("餐厅", "at the restaurant", "to the restaurant"),
    Place("咖啡馆", "at the cafe", "to the cafe"),
    Place("机场", "at the airport", "to the airport"),
    Place("火车站", "at the train station", "to the train station"),
    Place("教室", "in the classroom", "to the classroom"),
    Place("办公室", "in the office", "to the office"),
    Place("家", "at home", "home"),
)
CITIES = (
    Place("北京", "in Beijing", "to Beijing"),
    Place("上海", "in Shanghai", "to Shanghai"),
    Place("中国", "in China", "to China"),
    Place("美国", "in America", "to America"),
    Place("英国", "in England", "to England"),
    Place("法国", "in France", "to France"),
    Place("日本", "in Japan", "to Japan"),
)
DESTINATIONS = tuple(place for place in PLACES if place.zh != "教室")
SURFACES = (("桌子上", "on the table"), ("椅子上", "on the chair"), ("床上", "on the bed"))
ROOMS = (("房间里", "in the room"), ("教室里", "in the classroom"), ("办公室里", "in the office"))

PAST_TIMES = (
    ("昨天", "yesterday"),
    ("昨天早上", "yesterday morning"),
    ("昨天晚上", "yesterday evening"),
    ("上个星期", "last week"),
)
FUTURE_TIMES = (
    ("明天", "tomorrow"),
    ("明天早上", "tomorrow morning"),
    ("明天晚上", "tomorrow evening"),
    ("下个星期", "next week"),
)
HABIT_TIMES = (
    ("每天", "every day"),
    ("每天早上", "every morning"),
    ("每天晚上", "every evening"),
    ("每个星期天", "every Sunday"),
)
CITY_VEHICLES = (("坐公共汽车", "by bus"), ("坐出租车", "by taxi"))
NUMBERS = (("两", "two"), ("三", "three"), ("四", "four"), ("五", "five"))
HOURS = (("六", "six"), ("七", "seven"), ("八", "eight"), ("九", "nine"), ("十", "ten"))
